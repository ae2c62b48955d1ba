CREATE TABLE public.autotune_schema (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.cells (
    session_id bigint NOT NULL,
    problem_digest character varying(32) NOT NULL,
    backend character varying NOT NULL,
    collective character varying(32) NOT NULL,
    dtype character varying(32),
    op_class character varying(32),
    message_bytes bigint NOT NULL,
    n_ranks integer NOT NULL,
    placement json NOT NULL,
    memory character varying(32) NOT NULL,
    max_error double precision,
    state character varying(32) NOT NULL,
    CONSTRAINT ck_cells_cellstate CHECK (((state)::text = ANY ((ARRAY['done'::character varying, 'failed'::character varying])::text[]))),
    CONSTRAINT ck_cells_collective CHECK (((collective)::text = ANY ((ARRAY['all_reduce'::character varying, 'all_gather'::character varying, 'reduce_scatter'::character varying, 'broadcast'::character varying, 'reduce'::character varying, 'scatter'::character varying, 'gather'::character varying, 'all_to_all'::character varying])::text[]))),
    CONSTRAINT ck_cells_computes CHECK (((dtype IS NULL) = (op_class IS NULL))),
    CONSTRAINT ck_cells_dtype CHECK (((dtype)::text = ANY ((ARRAY['float32'::character varying, 'float64'::character varying, 'float16'::character varying, 'bfloat16'::character varying, 'int8'::character varying, 'uint8'::character varying, 'int32'::character varying, 'int64'::character varying])::text[]))),
    CONSTRAINT ck_cells_memory CHECK (((memory)::text = ANY ((ARRAY['private'::character varying, 'symmetric'::character varying])::text[]))),
    CONSTRAINT ck_cells_opclass CHECK (((op_class)::text = ANY ((ARRAY['sum'::character varying, 'minmax'::character varying, 'prod'::character varying])::text[]))),
    CONSTRAINT ck_cells_problem CHECK (((message_bytes >= 0) AND (n_ranks >= 1) AND ((max_error IS NULL) OR (max_error > (0)::double precision))))
);
CREATE TABLE public.samples (
    trial_id bigint NOT NULL,
    phase character varying(32) NOT NULL,
    kind character varying(32) NOT NULL,
    round integer NOT NULL,
    "position" integer NOT NULL,
    batch_calls integer NOT NULL,
    time_us double precision NOT NULL,
    CONSTRAINT ck_samples_phase CHECK (((phase)::text = ANY ((ARRAY['race'::character varying, 'confirm'::character varying])::text[]))),
    CONSTRAINT ck_samples_sample CHECK (((round >= 0) AND ("position" >= 0) AND (batch_calls >= 1) AND (time_us > (0)::double precision))),
    CONSTRAINT ck_samples_samplekind CHECK (((kind)::text = ANY ((ARRAY['fresh'::character varying, 'steady'::character varying])::text[])))
);
CREATE TABLE public.sessions (
    session_id bigint NOT NULL,
    state character varying(32) NOT NULL,
    plan_digest character varying NOT NULL,
    plan_text text NOT NULL,
    fingerprint character varying NOT NULL,
    environment json NOT NULL,
    environment_digest character varying NOT NULL,
    backend character varying NOT NULL,
    command text NOT NULL,
    schema_version integer NOT NULL,
    created_at character varying NOT NULL,
    finished_at character varying,
    CONSTRAINT ck_sessions_finished_at CHECK ((((state)::text = 'finished'::text) = (finished_at IS NOT NULL))),
    CONSTRAINT ck_sessions_sessionstate CHECK (((state)::text = ANY ((ARRAY['running'::character varying, 'interrupted'::character varying, 'finished'::character varying])::text[])))
);
CREATE SEQUENCE public.sessions_session_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.sessions_session_id_seq OWNED BY public.sessions.session_id;
CREATE TABLE public.table_hosts (
    fingerprint character varying NOT NULL,
    version bigint NOT NULL
);
CREATE TABLE public.tables (
    version bigint NOT NULL,
    fingerprint character varying NOT NULL,
    session_id bigint,
    digest character varying NOT NULL,
    created_at character varying NOT NULL,
    table_json text NOT NULL,
    backend character varying
);
CREATE SEQUENCE public.tables_version_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.tables_version_seq OWNED BY public.tables.version;
CREATE TABLE public.topologies (
    fingerprint character varying NOT NULL,
    description text NOT NULL,
    created_at character varying NOT NULL
);
CREATE TABLE public.trials (
    trial_id bigint NOT NULL,
    session_id bigint NOT NULL,
    problem_digest character varying(32) NOT NULL,
    backend character varying NOT NULL,
    collective character varying(32) NOT NULL,
    dtype character varying(32),
    op_class character varying(32),
    message_bytes bigint NOT NULL,
    n_ranks integer NOT NULL,
    placement json NOT NULL,
    memory character varying(32) NOT NULL,
    max_error double precision,
    config_digest character varying(32) NOT NULL,
    algorithm character varying NOT NULL,
    segment_bytes bigint,
    codec character varying NOT NULL,
    knobs json NOT NULL,
    state character varying(32) NOT NULL,
    message text NOT NULL,
    wrong_rank integer,
    wrong_index bigint,
    wrong_got character varying,
    wrong_expected character varying,
    error double precision,
    density double precision,
    CONSTRAINT ck_trials_collective CHECK (((collective)::text = ANY ((ARRAY['all_reduce'::character varying, 'all_gather'::character varying, 'reduce_scatter'::character varying, 'broadcast'::character varying, 'reduce'::character varying, 'scatter'::character varying, 'gather'::character varying, 'all_to_all'::character varying])::text[]))),
    CONSTRAINT ck_trials_computes CHECK (((dtype IS NULL) = (op_class IS NULL))),
    CONSTRAINT ck_trials_dtype CHECK (((dtype)::text = ANY ((ARRAY['float32'::character varying, 'float64'::character varying, 'float16'::character varying, 'bfloat16'::character varying, 'int8'::character varying, 'uint8'::character varying, 'int32'::character varying, 'int64'::character varying])::text[]))),
    CONSTRAINT ck_trials_fidelity CHECK ((((error IS NULL) = (density IS NULL)) AND ((error IS NULL) OR (error >= (0)::double precision)))),
    CONSTRAINT ck_trials_memory CHECK (((memory)::text = ANY ((ARRAY['private'::character varying, 'symmetric'::character varying])::text[]))),
    CONSTRAINT ck_trials_message CHECK ((((state)::text = 'ok'::text) = (message = ''::text))),
    CONSTRAINT ck_trials_opclass CHECK (((op_class)::text = ANY ((ARRAY['sum'::character varying, 'minmax'::character varying, 'prod'::character varying])::text[]))),
    CONSTRAINT ck_trials_problem CHECK (((message_bytes >= 0) AND (n_ranks >= 1) AND ((max_error IS NULL) OR (max_error > (0)::double precision)))),
    CONSTRAINT ck_trials_segment_bytes CHECK (((segment_bytes IS NULL) OR (segment_bytes >= 1))),
    CONSTRAINT ck_trials_trialstate CHECK (((state)::text = ANY ((ARRAY['ok'::character varying, 'wrong_result'::character varying, 'invalid'::character varying, 'timeout'::character varying, 'crashed'::character varying])::text[]))),
    CONSTRAINT ck_trials_wrong CHECK (((wrong_rank IS NULL) OR ((state)::text = 'wrong_result'::text))),
    CONSTRAINT ck_trials_wrong_whole CHECK ((((wrong_rank IS NULL) = (wrong_index IS NULL)) AND ((wrong_rank IS NULL) = (wrong_got IS NULL)) AND ((wrong_rank IS NULL) = (wrong_expected IS NULL))))
);
CREATE SEQUENCE public.trials_trial_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trials_trial_id_seq OWNED BY public.trials.trial_id;
ALTER TABLE ONLY public.sessions ALTER COLUMN session_id SET DEFAULT nextval('public.sessions_session_id_seq'::regclass);
ALTER TABLE ONLY public.tables ALTER COLUMN version SET DEFAULT nextval('public.tables_version_seq'::regclass);
ALTER TABLE ONLY public.trials ALTER COLUMN trial_id SET DEFAULT nextval('public.trials_trial_id_seq'::regclass);
INSERT INTO public.autotune_schema VALUES ('0004');
INSERT INTO public.cells VALUES (1, '3c0c56809da4204933efed39cacfc221', 'native', 'all_reduce', 'float32', 'sum', 1024, 4, '[2, 2]', 'private', NULL, 'done');
INSERT INTO public.cells VALUES (2, '187c9fe25d2f72d10108c062ddb5661b', 'hccl', 'all_to_all', NULL, NULL, 3221225472, 3, '[1, 2]', 'symmetric', 0.01, 'failed');
INSERT INTO public.samples VALUES (1, 'race', 'fresh', 0, 0, 16, 12.5);
INSERT INTO public.samples VALUES (2, 'race', 'fresh', 0, 0, 16, 3.0000000000000004);
INSERT INTO public.samples VALUES (1, 'race', 'fresh', 1, 0, 16, 12.5);
INSERT INTO public.samples VALUES (1, 'confirm', 'steady', 0, 1, 7, 0.1);
INSERT INTO public.sessions VALUES (2, 'running', 'p1', 'sizes: 8-64MiB
', 'f1', '{"kernel": "6.1", "python": "3.11"}', '37105c359c9a77ad', 'native', 'autotune run --quick', 4, '2026-11-30T01:44:47+00:00', NULL);
INSERT INTO public.sessions VALUES (1, 'finished', 'p1', 'sizes: 8-64MiB
', 'f1', '{"kernel": "6.1", "python": "3.11"}', '37105c359c9a77ad', 'native', 'autotune run --quick', 4, '2026-11-30T01:44:47+00:00', '2026-11-30T01:44:47+00:00');
INSERT INTO public.table_hosts VALUES ('h1', 1);
INSERT INTO public.tables VALUES (1, 'f1', 1, 'd1', '2026-11-30T01:44:47+00:00', '{"schema_version": 1}
', 'native');
INSERT INTO public.topologies VALUES ('f1', '{}', '2026-11-30T01:44:47+00:00');
INSERT INTO public.trials VALUES (1, 1, '3c0c56809da4204933efed39cacfc221', 'native', 'all_reduce', 'float32', 'sum', 1024, 4, '[2, 2]', 'private', NULL, 'd655db684f1a80a38adb4e6405f05e7c', 'ring', 65536, 'none', '{}', 'ok', '', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.trials VALUES (2, 1, '3c0c56809da4204933efed39cacfc221', 'native', 'all_reduce', 'float32', 'sum', 1024, 4, '[2, 2]', 'private', NULL, 'e9d1ababe5897249aca04afd8297c3b5', 'tree', NULL, 'none', '{}', 'timeout', '5 s', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.trials VALUES (3, 2, '187c9fe25d2f72d10108c062ddb5661b', 'hccl', 'all_to_all', NULL, NULL, 3221225472, 3, '[1, 2]', 'symmetric', 0.01, '4dffcff47efafe32774abe2a9d7208af', 'direct', NULL, 'none', '{"outbox_store": "dual", "slices": 2}', 'wrong_result', '1 wrong', 1, 5000000000, 'nan', '6.0', NULL, NULL);
SELECT pg_catalog.setval('public.sessions_session_id_seq', 2, true);
SELECT pg_catalog.setval('public.tables_version_seq', 1, true);
SELECT pg_catalog.setval('public.trials_trial_id_seq', 3, true);
ALTER TABLE ONLY public.autotune_schema
    ADD CONSTRAINT autotune_schema_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.cells
    ADD CONSTRAINT pk_cells PRIMARY KEY (session_id, problem_digest);
ALTER TABLE ONLY public.samples
    ADD CONSTRAINT pk_samples PRIMARY KEY (trial_id, phase, kind, round);
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT pk_sessions PRIMARY KEY (session_id);
ALTER TABLE ONLY public.table_hosts
    ADD CONSTRAINT pk_table_hosts PRIMARY KEY (fingerprint, version);
ALTER TABLE ONLY public.tables
    ADD CONSTRAINT pk_tables PRIMARY KEY (version);
ALTER TABLE ONLY public.topologies
    ADD CONSTRAINT pk_topologies PRIMARY KEY (fingerprint);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT pk_trials PRIMARY KEY (trial_id);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT uq_trials_session_id_problem_digest_config_digest UNIQUE (session_id, problem_digest, config_digest);
CREATE INDEX ix_cells_collective_n_ranks_backend_message_bytes ON public.cells USING btree (collective, n_ranks, backend, message_bytes);
CREATE INDEX ix_sessions_plan_digest_fingerprint_environment_digest ON public.sessions USING btree (plan_digest, fingerprint, environment_digest);
CREATE INDEX ix_table_hosts_version ON public.table_hosts USING btree (version);
CREATE INDEX ix_tables_fingerprint_backend_version ON public.tables USING btree (fingerprint, backend, version);
CREATE INDEX ix_tables_session_id ON public.tables USING btree (session_id);
CREATE INDEX ix_trials_problem_digest_session_id ON public.trials USING btree (problem_digest, session_id);
ALTER TABLE ONLY public.cells
    ADD CONSTRAINT fk_cells_session_id FOREIGN KEY (session_id) REFERENCES public.sessions(session_id);
ALTER TABLE ONLY public.samples
    ADD CONSTRAINT fk_samples_trial_id FOREIGN KEY (trial_id) REFERENCES public.trials(trial_id);
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT fk_sessions_fingerprint FOREIGN KEY (fingerprint) REFERENCES public.topologies(fingerprint);
ALTER TABLE ONLY public.table_hosts
    ADD CONSTRAINT fk_table_hosts_version FOREIGN KEY (version) REFERENCES public.tables(version);
ALTER TABLE ONLY public.tables
    ADD CONSTRAINT fk_tables_session_id FOREIGN KEY (session_id) REFERENCES public.sessions(session_id);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT fk_trials_session_id FOREIGN KEY (session_id) REFERENCES public.sessions(session_id);
