"""What runs collectives and times them: one backend a file, each keeping the contract of `measure.Backend`."""
