// A call's way through its waves, slice by slice; see group.h. level.cc carries out what each slice does in one.
//
// In: a call that has begun. Out: its results, and the clock after every wave that somebody waits for.
#include "wave.h"

namespace autotune {

void Group::run_waves(const Call& call, const Buffers& buffers) {
  const Program& program = *call.program;
  const Plan& plan = call.plan;
  const std::size_t levels = program.levels.size();
  const int half = static_cast<int>(call_ & 1);
  const std::uint64_t start = epoch_;
  const auto announced = [&](std::size_t wave) { return (start + wave) << kSignatureBits | chain_; };

  Wave wave;  // all of it is set below; clearing it first was 3 % of the samples of a profile of small calls
  wave.half = half;
  wave.bank = bank_in(program, 0);
  // Where an output is an input too, its lines are here already; a broadcast's are only where it starts.
  wave.stream = call.stream && (buffers.input != buffers.output || call.collective == Collective::Broadcast);
  wave.learns = !network_ && !in_banks_ && !exchanges_ && OutboxStores::learns(call);
  wave.stream_outbox = call.outbox == Outbox::Streamed;
  const bool looks = wave.learns && !program.readers.empty();
  if (network_ && !lands_ahead_.empty()) [[unlikely]]
    for (std::size_t w = 0; w + 2 < plan.window; w++) land_ahead(call, buffers, w);
  std::size_t newest = 0, oldest = 0;             // slices that are under way
  std::size_t row = 0, previous_row = plan.window - 1;  // w and w - 1, modulo the window
  for (std::size_t w = 0; w < plan.waves; w++) {
    if (w >= (newest + 1) * plan.spacing && newest + 1 < plan.slices) newest++;
    if (w >= levels + oldest * plan.spacing) oldest++;
    wave.number = w;
    wave.word = announced(w);
    wave.previous_word = announced(w - 1);  // of no wave at w = 0, where nothing is taken
    if (looks && (w == 0 || plan.slices > 1)) wave.stream_outbox = outbox_stores_.begin();
    // No message of a later wave can come before this one has ended.
    if (network_ && !lands_ahead_.empty()) [[unlikely]] land_ahead(call, buffers, w + plan.window - 2);
    // The newest slice first: its peers wait longest for it.
    for (std::size_t s = newest + 1; s-- > oldest;) {
      wave.take_slice(plan, s);
      wave.slot = row * plan.in_flight + wave.column;
      wave.previous_slot = previous_row * plan.in_flight + wave.column;
      wave.level = &program.levels[w - plan.spacing * s];
      wave.last_post = w - plan.spacing * s + 2 == levels;
      wave.swapped = swapped_[wave.slot];
      wave.previous_swapped = !swapped_[wave.previous_slot];
      run_level(call, wave, buffers);
      swapped_[wave.slot] ^= exchanges_ && wave.level->posts;
    }
    if (network_) [[unlikely]] network_->forget_landings(wave.previous_word);
    previous_row = row;
    if (++row == plan.window) row = 0;
    // Nobody reads the clock inside a call whose slots are never used again.
    if (plan.waves > plan.window || w + 1 == plan.waves) {
      tell_clock(start + w + 1);
      // Later clocks of this call nobody on another host waits for.
      if (network_ && w + plan.window <= plan.waves) [[unlikely]] tell_clock_to_writers(program);
    }
  }
  if (network_) [[unlikely]] {
    if (!program.synchronising) tell_clock_to_writers(program);
    finish_sending();
  }
  if (wave.stream) store_fence();  // the caller may hand the output to another thread
}

}  // namespace autotune
