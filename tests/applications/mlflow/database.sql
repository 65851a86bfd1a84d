CREATE FUNCTION public.prevent_secrets_aad_mutation() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF OLD.secret_id != NEW.secret_id OR OLD.secret_name != NEW.secret_name THEN
        RAISE EXCEPTION 'secret_id and secret_name are immutable (used as AAD in encryption)';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.assessments (
    assessment_id character varying(50) NOT NULL,
    trace_id character varying(50) NOT NULL,
    name character varying(250) NOT NULL,
    assessment_type character varying(20) NOT NULL,
    value text NOT NULL,
    error text,
    created_timestamp bigint NOT NULL,
    last_updated_timestamp bigint NOT NULL,
    source_type character varying(50) NOT NULL,
    source_id character varying(250),
    run_id character varying(32),
    span_id character varying(50),
    rationale text,
    overrides character varying(50),
    valid boolean NOT NULL,
    assessment_metadata text,
    experiment_id integer,
    trace_timestamp_ms bigint,
    aggregate_value double precision,
    is_numeric_value boolean DEFAULT false NOT NULL
);
CREATE TABLE public.budget_policies (
    budget_policy_id character varying(36) NOT NULL,
    budget_unit character varying(32) NOT NULL,
    budget_amount double precision NOT NULL,
    duration_unit character varying(32) NOT NULL,
    duration_value integer NOT NULL,
    target_scope character varying(32) NOT NULL,
    budget_action character varying(32) NOT NULL,
    created_by character varying(255),
    created_at bigint NOT NULL,
    last_updated_by character varying(255),
    last_updated_at bigint NOT NULL,
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL,
    target_value character varying(255)
);
CREATE TABLE public.datasets (
    dataset_uuid character varying(36) NOT NULL,
    experiment_id integer NOT NULL,
    name character varying(500) NOT NULL,
    digest character varying(36) NOT NULL,
    dataset_source_type character varying(36) NOT NULL,
    dataset_source text NOT NULL,
    dataset_schema text,
    dataset_profile text
);
CREATE TABLE public.endpoint_bindings (
    endpoint_id character varying(36) NOT NULL,
    resource_type character varying(50) NOT NULL,
    resource_id character varying(255) NOT NULL,
    created_at bigint NOT NULL,
    created_by character varying(255),
    last_updated_at bigint NOT NULL,
    last_updated_by character varying(255),
    display_name character varying(255)
);
CREATE TABLE public.endpoint_model_mappings (
    mapping_id character varying(36) NOT NULL,
    endpoint_id character varying(36) NOT NULL,
    model_definition_id character varying(36) NOT NULL,
    weight double precision NOT NULL,
    created_by character varying(255),
    created_at bigint NOT NULL,
    linkage_type character varying(64) DEFAULT 'PRIMARY'::character varying NOT NULL,
    fallback_order integer
);
CREATE TABLE public.endpoint_tags (
    key character varying(250) NOT NULL,
    value character varying(5000),
    endpoint_id character varying(36) NOT NULL
);
CREATE TABLE public.endpoints (
    endpoint_id character varying(36) NOT NULL,
    name character varying(255),
    created_by character varying(255),
    created_at bigint NOT NULL,
    last_updated_by character varying(255),
    last_updated_at bigint NOT NULL,
    routing_strategy character varying(64),
    fallback_config_json text,
    experiment_id integer,
    usage_tracking boolean DEFAULT false NOT NULL,
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL
);
CREATE TABLE public.entity_associations (
    association_id character varying(36) NOT NULL,
    source_type character varying(36) NOT NULL,
    source_id character varying(36) NOT NULL,
    destination_type character varying(36) NOT NULL,
    destination_id character varying(36) NOT NULL,
    created_time bigint
);
CREATE TABLE public.evaluation_dataset_records (
    dataset_record_id character varying(36) NOT NULL,
    dataset_id character varying(36) NOT NULL,
    inputs json NOT NULL,
    expectations json,
    tags json,
    source json,
    source_id character varying(36),
    source_type character varying(255),
    created_time bigint,
    last_update_time bigint,
    created_by character varying(255),
    last_updated_by character varying(255),
    input_hash character varying(64) NOT NULL,
    outputs json
);
CREATE TABLE public.evaluation_dataset_tags (
    dataset_id character varying(36) NOT NULL,
    key character varying(255) NOT NULL,
    value character varying(5000)
);
CREATE TABLE public.evaluation_datasets (
    dataset_id character varying(36) NOT NULL,
    name character varying(255) NOT NULL,
    schema text,
    profile text,
    digest character varying(64),
    created_time bigint,
    last_update_time bigint,
    created_by character varying(255),
    last_updated_by character varying(255),
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL
);
CREATE TABLE public.experiment_tags (
    key character varying(250) NOT NULL,
    value text,
    experiment_id integer NOT NULL
);
CREATE TABLE public.experiments (
    experiment_id integer NOT NULL,
    name character varying(256) NOT NULL,
    artifact_location character varying(256),
    lifecycle_stage character varying(32),
    creation_time bigint,
    last_update_time bigint,
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL,
    CONSTRAINT experiments_lifecycle_stage CHECK (((lifecycle_stage)::text = ANY ((ARRAY['active'::character varying, 'deleted'::character varying])::text[])))
);
CREATE SEQUENCE public.experiments_experiment_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.experiments_experiment_id_seq OWNED BY public.experiments.experiment_id;
CREATE TABLE public.guardrail_configs (
    endpoint_id character varying(36) NOT NULL,
    guardrail_id character varying(36) NOT NULL,
    execution_order integer,
    created_by character varying(255),
    created_at bigint NOT NULL,
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL
);
CREATE TABLE public.guardrails (
    guardrail_id character varying(36) NOT NULL,
    name character varying(255) NOT NULL,
    scorer_id character varying(36) NOT NULL,
    scorer_version integer NOT NULL,
    stage character varying(32) NOT NULL,
    action character varying(32) NOT NULL,
    action_endpoint_id character varying(36),
    created_by character varying(255),
    created_at bigint NOT NULL,
    last_updated_by character varying(255),
    last_updated_at bigint NOT NULL,
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL
);
CREATE TABLE public.input_tags (
    input_uuid character varying(36) NOT NULL,
    name character varying(255) NOT NULL,
    value character varying(500) NOT NULL
);
CREATE TABLE public.inputs (
    input_uuid character varying(36) NOT NULL,
    source_type character varying(36) NOT NULL,
    source_id character varying(36) NOT NULL,
    destination_type character varying(36) NOT NULL,
    destination_id character varying(36) NOT NULL,
    step bigint DEFAULT '0'::bigint NOT NULL
);
CREATE TABLE public.issues (
    issue_id character varying(36) NOT NULL,
    experiment_id integer NOT NULL,
    name character varying(250) NOT NULL,
    description text NOT NULL,
    status character varying(50) NOT NULL,
    severity character varying(50),
    root_causes text,
    source_run_id character varying(32),
    categories text,
    created_timestamp bigint NOT NULL,
    last_updated_timestamp bigint NOT NULL,
    created_by character varying(255)
);
CREATE TABLE public.job_locks (
    lock_key character varying(255) NOT NULL,
    job_id character varying(36) NOT NULL,
    acquired_at bigint NOT NULL
);
CREATE TABLE public.jobs (
    id character varying(36) NOT NULL,
    creation_time bigint NOT NULL,
    job_name character varying(500) NOT NULL,
    params text NOT NULL,
    timeout double precision,
    status integer NOT NULL,
    result text,
    retry_count integer NOT NULL,
    last_update_time bigint NOT NULL,
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL,
    status_details json,
    creator character varying(255),
    executor_backend character varying(255),
    lease_expires_at bigint,
    status_message text,
    progress json,
    progress_updated_at bigint,
    token_hash character varying(64),
    scoped_permissions json,
    next_attempt_at bigint
);
CREATE TABLE public.label_schemas (
    schema_id character varying(36) NOT NULL,
    experiment_id integer NOT NULL,
    name character varying(250) NOT NULL,
    type character varying(16) NOT NULL,
    instruction text,
    enable_comment boolean DEFAULT false NOT NULL,
    input_type character varying(32) NOT NULL,
    input_config text NOT NULL,
    created_by character varying(255),
    created_time bigint NOT NULL,
    last_update_time bigint NOT NULL,
    is_default boolean DEFAULT false NOT NULL
);
CREATE TABLE public.latest_metrics (
    key character varying(250) NOT NULL,
    value double precision NOT NULL,
    "timestamp" bigint,
    step bigint NOT NULL,
    is_nan boolean NOT NULL,
    run_uuid character varying(32) NOT NULL
);
CREATE TABLE public.logged_model_metrics (
    model_id character varying(36) NOT NULL,
    metric_name character varying(500) NOT NULL,
    metric_timestamp_ms bigint NOT NULL,
    metric_step bigint NOT NULL,
    metric_value double precision,
    experiment_id integer NOT NULL,
    run_id character varying(32) NOT NULL,
    dataset_uuid character varying(36),
    dataset_name character varying(500),
    dataset_digest character varying(36)
);
CREATE TABLE public.logged_model_params (
    model_id character varying(36) NOT NULL,
    experiment_id integer NOT NULL,
    param_key character varying(255) NOT NULL,
    param_value text NOT NULL
);
CREATE TABLE public.logged_model_tags (
    model_id character varying(36) NOT NULL,
    experiment_id integer NOT NULL,
    tag_key character varying(255) NOT NULL,
    tag_value text NOT NULL
);
CREATE TABLE public.logged_models (
    model_id character varying(36) NOT NULL,
    experiment_id integer NOT NULL,
    name character varying(500) NOT NULL,
    artifact_location character varying(1000) NOT NULL,
    creation_timestamp_ms bigint NOT NULL,
    last_updated_timestamp_ms bigint NOT NULL,
    status integer NOT NULL,
    lifecycle_stage character varying(32),
    model_type character varying(500),
    source_run_id character varying(32),
    status_message character varying(1000),
    CONSTRAINT logged_models_lifecycle_stage_check CHECK (((lifecycle_stage)::text = ANY ((ARRAY['active'::character varying, 'deleted'::character varying])::text[])))
);
CREATE TABLE public.mcp_access_endpoints (
    id character varying(36) NOT NULL,
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL,
    server_name character varying(256) NOT NULL,
    server_version character varying(128),
    server_alias character varying(256),
    url character varying(2048) NOT NULL,
    transport_type character varying(32) DEFAULT 'streamable-http'::character varying NOT NULL,
    created_by character varying(256),
    last_updated_by character varying(256),
    created_at bigint NOT NULL,
    last_updated_at bigint NOT NULL
);
CREATE TABLE public.mcp_server_aliases (
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL,
    name character varying(256) NOT NULL,
    alias character varying(256) NOT NULL,
    version character varying(128) NOT NULL
);
CREATE TABLE public.mcp_server_tags (
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL,
    name character varying(256) NOT NULL,
    key character varying(250) NOT NULL,
    value character varying(5000)
);
CREATE TABLE public.mcp_server_version_tags (
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL,
    name character varying(256) NOT NULL,
    version character varying(128) NOT NULL,
    key character varying(250) NOT NULL,
    value character varying(5000)
);
CREATE TABLE public.mcp_server_versions (
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL,
    name character varying(256) NOT NULL,
    version character varying(128) NOT NULL,
    version_major integer NOT NULL,
    version_minor integer NOT NULL,
    version_patch integer NOT NULL,
    version_prerelease_sort_key character varying(512) NOT NULL,
    server_json json NOT NULL,
    status character varying(20) DEFAULT 'draft'::character varying NOT NULL,
    tools json,
    source character varying(512),
    connect_options json,
    created_by character varying(256),
    last_updated_by character varying(256),
    created_at bigint NOT NULL,
    last_updated_at bigint NOT NULL
);
CREATE TABLE public.mcp_servers (
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL,
    name character varying(256) NOT NULL,
    display_name character varying(256),
    description text,
    icons json,
    created_by character varying(256),
    last_updated_by character varying(256),
    created_at bigint NOT NULL,
    last_updated_at bigint NOT NULL
);
CREATE TABLE public.metrics (
    key character varying(250) NOT NULL,
    value double precision NOT NULL,
    "timestamp" bigint NOT NULL,
    run_uuid character varying(32) NOT NULL,
    step bigint DEFAULT '0'::bigint NOT NULL,
    is_nan boolean DEFAULT false NOT NULL
);
CREATE TABLE public.model_definitions (
    model_definition_id character varying(36) NOT NULL,
    name character varying(255) NOT NULL,
    secret_id character varying(36),
    provider character varying(64) NOT NULL,
    model_name character varying(256) NOT NULL,
    created_by character varying(255),
    created_at bigint NOT NULL,
    last_updated_by character varying(255),
    last_updated_at bigint NOT NULL,
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL
);
CREATE TABLE public.model_version_tags (
    key character varying(250) NOT NULL,
    value text,
    name character varying(256) NOT NULL,
    version integer NOT NULL,
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL
);
CREATE TABLE public.model_versions (
    name character varying(256) NOT NULL,
    version integer NOT NULL,
    creation_time bigint,
    last_updated_time bigint,
    description character varying(5000),
    user_id character varying(256),
    current_stage character varying(20),
    source character varying(500),
    run_id character varying(32),
    status character varying(20),
    status_message character varying(500),
    run_link character varying(500),
    storage_location character varying(500),
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL
);
CREATE TABLE public.online_scoring_configs (
    online_scoring_config_id character varying(36) NOT NULL,
    scorer_id character varying(36) NOT NULL,
    sample_rate double precision NOT NULL,
    experiment_id integer NOT NULL,
    filter_string text
);
CREATE TABLE public.params (
    key character varying(250) NOT NULL,
    value character varying(8000) NOT NULL,
    run_uuid character varying(32) NOT NULL
);
CREATE TABLE public.registered_model_aliases (
    alias character varying(256) NOT NULL,
    version integer NOT NULL,
    name character varying(256) NOT NULL,
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL
);
CREATE TABLE public.registered_model_tags (
    key character varying(250) NOT NULL,
    value character varying(5000),
    name character varying(256) NOT NULL,
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL
);
CREATE TABLE public.registered_models (
    name character varying(256) NOT NULL,
    creation_time bigint,
    last_updated_time bigint,
    description character varying(5000),
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL
);
CREATE TABLE public.review_queue_items (
    queue_id character varying(36) NOT NULL,
    item_type character varying(16) NOT NULL,
    item_id character varying(50) NOT NULL,
    status character varying(16) NOT NULL,
    completed_by character varying(250),
    completed_time_ms bigint,
    creation_time_ms bigint NOT NULL,
    last_update_time_ms bigint NOT NULL
);
CREATE TABLE public.review_queue_label_schemas (
    queue_id character varying(36) NOT NULL,
    schema_id character varying(36) NOT NULL
);
CREATE TABLE public.review_queue_users (
    queue_id character varying(36) NOT NULL,
    user_id character varying(250) NOT NULL
);
CREATE TABLE public.review_queues (
    queue_id character varying(36) NOT NULL,
    experiment_id integer NOT NULL,
    name character varying(250) NOT NULL,
    queue_type character varying(16) NOT NULL,
    created_by character varying(255),
    creation_time_ms bigint NOT NULL,
    last_update_time_ms bigint NOT NULL,
    name_key character varying(250) NOT NULL
);
CREATE TABLE public.runs (
    run_uuid character varying(32) NOT NULL,
    name character varying(250),
    source_type character varying(20),
    source_name character varying(500),
    entry_point_name character varying(50),
    user_id character varying(256),
    status character varying(9),
    start_time bigint,
    end_time bigint,
    source_version character varying(50),
    lifecycle_stage character varying(20),
    artifact_uri character varying(200),
    experiment_id integer,
    deleted_time bigint,
    CONSTRAINT runs_lifecycle_stage CHECK (((lifecycle_stage)::text = ANY ((ARRAY['active'::character varying, 'deleted'::character varying])::text[]))),
    CONSTRAINT runs_status_check CHECK (((status)::text = ANY ((ARRAY['SCHEDULED'::character varying, 'FAILED'::character varying, 'FINISHED'::character varying, 'RUNNING'::character varying, 'KILLED'::character varying])::text[]))),
    CONSTRAINT source_type CHECK (((source_type)::text = ANY ((ARRAY['NOTEBOOK'::character varying, 'JOB'::character varying, 'LOCAL'::character varying, 'UNKNOWN'::character varying, 'PROJECT'::character varying])::text[])))
);
CREATE TABLE public.scheduler_leases (
    lease_key character varying(255) NOT NULL,
    acquired_at bigint NOT NULL,
    ttl_seconds integer NOT NULL
);
CREATE TABLE public.scorer_versions (
    scorer_id character varying(36) NOT NULL,
    scorer_version integer NOT NULL,
    serialized_scorer text NOT NULL,
    creation_time bigint
);
CREATE TABLE public.scorers (
    experiment_id integer NOT NULL,
    scorer_name character varying(256) NOT NULL,
    scorer_id character varying(36) NOT NULL
);
CREATE TABLE public.secrets (
    secret_id character varying(36) NOT NULL,
    secret_name character varying(255) NOT NULL,
    encrypted_value bytea NOT NULL,
    wrapped_dek bytea NOT NULL,
    kek_version integer NOT NULL,
    masked_value character varying(500) NOT NULL,
    provider character varying(64),
    auth_config text,
    description text,
    created_by character varying(255),
    created_at bigint NOT NULL,
    last_updated_by character varying(255),
    last_updated_at bigint NOT NULL,
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL
);
CREATE TABLE public.span_metrics (
    trace_id character varying(50) NOT NULL,
    span_id character varying(50) NOT NULL,
    key character varying(250) NOT NULL,
    value double precision
);
CREATE TABLE public.spans (
    trace_id character varying(50) NOT NULL,
    experiment_id integer NOT NULL,
    span_id character varying(50) NOT NULL,
    parent_span_id character varying(50),
    name text,
    type character varying(500),
    status character varying(50) NOT NULL,
    start_time_unix_nano bigint NOT NULL,
    end_time_unix_nano bigint,
    duration_ns bigint GENERATED ALWAYS AS ((end_time_unix_nano - start_time_unix_nano)) STORED,
    content text NOT NULL,
    input_cost double precision,
    output_cost double precision,
    total_cost double precision,
    model_name character varying(500),
    model_provider character varying(500)
);
CREATE TABLE public.sql_assessment_daily_rollups (
    id bigint NOT NULL,
    experiment_id integer NOT NULL,
    rollup_day date NOT NULL,
    metric_name character varying(250) NOT NULL,
    grouping_set character varying(50) NOT NULL,
    sample_count bigint NOT NULL,
    sum_value double precision,
    min_value double precision,
    max_value double precision
);
ALTER TABLE public.sql_assessment_daily_rollups ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sql_assessment_daily_rollups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sql_span_cost_daily_rollups (
    id bigint NOT NULL,
    experiment_id integer NOT NULL,
    rollup_day date NOT NULL,
    metric_name character varying(250) NOT NULL,
    grouping_set character varying(50) NOT NULL,
    model_name character varying(500),
    model_provider character varying(500),
    sample_count bigint NOT NULL,
    sum_value double precision,
    min_value double precision,
    max_value double precision
);
ALTER TABLE public.sql_span_cost_daily_rollups ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sql_span_cost_daily_rollups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sql_trace_metric_daily_rollups (
    id bigint NOT NULL,
    experiment_id integer NOT NULL,
    rollup_day date NOT NULL,
    metric_name character varying(250) NOT NULL,
    grouping_set character varying(50) NOT NULL,
    trace_status character varying(50),
    sample_count bigint NOT NULL,
    sum_value double precision,
    min_value double precision,
    max_value double precision,
    p50_value double precision,
    p90_value double precision,
    p99_value double precision
);
ALTER TABLE public.sql_trace_metric_daily_rollups ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sql_trace_metric_daily_rollups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sql_trace_rollup_rebuild_queue (
    experiment_id integer NOT NULL,
    rollup_day date NOT NULL,
    rollup_family character varying(50) NOT NULL
);
CREATE TABLE public.tags (
    key character varying(250) NOT NULL,
    value character varying(8000),
    run_uuid character varying(32) NOT NULL
);
CREATE TABLE public.trace_info (
    request_id character varying(50) NOT NULL,
    experiment_id integer NOT NULL,
    timestamp_ms bigint NOT NULL,
    execution_time_ms bigint,
    status character varying(50) NOT NULL,
    client_request_id character varying(50),
    request_preview character varying(1000),
    response_preview character varying(1000),
    db_payload_generation integer DEFAULT 0 NOT NULL,
    trace_name character varying(4096),
    session_id character varying(250),
    input_tokens bigint,
    output_tokens bigint,
    total_tokens bigint,
    cache_read_input_tokens bigint,
    cache_creation_input_tokens bigint,
    cache_creation_input_tokens_above_1hr bigint,
    input_cost double precision,
    output_cost double precision,
    total_cost double precision
);
CREATE TABLE public.trace_metrics (
    request_id character varying(50) NOT NULL,
    key character varying(250) NOT NULL,
    value double precision
);
CREATE TABLE public.trace_request_metadata (
    key character varying(250) NOT NULL,
    value character varying(8000),
    request_id character varying(50) NOT NULL
);
CREATE TABLE public.trace_tags (
    key character varying(250) NOT NULL,
    value character varying(8000),
    request_id character varying(50) NOT NULL
);
CREATE TABLE public.webhook_events (
    webhook_id character varying(256) NOT NULL,
    entity character varying(50) NOT NULL,
    action character varying(50) NOT NULL
);
CREATE TABLE public.webhooks (
    webhook_id character varying(256) NOT NULL,
    name character varying(256) NOT NULL,
    description character varying(1000),
    url character varying(500) NOT NULL,
    status character varying(20) DEFAULT 'ACTIVE'::character varying NOT NULL,
    secret character varying(1000),
    creation_timestamp bigint,
    last_updated_timestamp bigint,
    deleted_timestamp bigint,
    workspace character varying(63) DEFAULT 'default'::character varying NOT NULL
);
CREATE TABLE public.workspaces (
    name character varying(63) NOT NULL,
    description text,
    default_artifact_root text,
    trace_archival_location text,
    trace_archival_retention character varying(32)
);
ALTER TABLE ONLY public.experiments ALTER COLUMN experiment_id SET DEFAULT nextval('public.experiments_experiment_id_seq'::regclass);
INSERT INTO public.alembic_version VALUES
	('dc11669786a5');
INSERT INTO public.experiments VALUES
	(0, 'Default', 'mlflow-artifacts:/0', 'active', 1796051623727, 1796051623727, 'default'),
	(1, 'first', 'mlflow-artifacts:/1', 'active', 1796051647324, 1796051647324, 'default'),
	(2, 'second', 'mlflow-artifacts:/2', 'active', 1796051647944, 1796051647944, 'default'),
	(3, 'custom', 's3://mlflow-app/own/custom', 'active', 1796051648324, 1796051648324, 'default');
INSERT INTO public.inputs VALUES
	('42d3d37492174acabaf8d714b0908d3c', 'RUN_OUTPUT', 'b765228a9d2541d7bba3c2a5e61e0ffe', 'MODEL_OUTPUT', 'm-621115f14b544cc0aefee1c27c43cec4', 0);
INSERT INTO public.logged_model_tags VALUES
	('m-621115f14b544cc0aefee1c27c43cec4', 1, 'mlflow.user', 'root'),
	('m-621115f14b544cc0aefee1c27c43cec4', 1, 'mlflow.source.name', '/app/mlflow_use.py'),
	('m-621115f14b544cc0aefee1c27c43cec4', 1, 'mlflow.source.type', 'LOCAL'),
	('m-621115f14b544cc0aefee1c27c43cec4', 1, 'mlflow.source.git.commit', '3d0f6d8cb4b722b4bf5ada9c49204916b8bb38a8'),
	('m-621115f14b544cc0aefee1c27c43cec4', 1, 'mlflow.source.git.branch', 'fixtures'),
	('m-621115f14b544cc0aefee1c27c43cec4', 1, 'mlflow.modelVersions', '[{"name": "registered", "version": 1}, {"name": "registered", "version": "1"}]');
INSERT INTO public.logged_models VALUES
	('m-621115f14b544cc0aefee1c27c43cec4', 1, 'model', 'mlflow-artifacts:/1/models/m-621115f14b544cc0aefee1c27c43cec4/artifacts', 1796051693502, 1796051700048, 2, 'active', '', 'b765228a9d2541d7bba3c2a5e61e0ffe', NULL);
INSERT INTO public.model_versions VALUES
	('registered', 1, 1796051702309, 1796051702309, '', NULL, 'None', 'models:/m-621115f14b544cc0aefee1c27c43cec4', 'b765228a9d2541d7bba3c2a5e61e0ffe', 'READY', NULL, '', 'mlflow-artifacts:/1/models/m-621115f14b544cc0aefee1c27c43cec4/artifacts', 'default');
INSERT INTO public.registered_models VALUES
	('registered', 1796051700905, 1796051702309, '', 'default');
INSERT INTO public.runs VALUES
	('1017fd16c53342e6b4e41ee0fef6ef14', 'stylish-shark-35', 'UNKNOWN', '', '', 'unknown', 'FINISHED', 1796051667882, 1796051670158, '', 'active', 'mlflow-artifacts:/1/1017fd16c53342e6b4e41ee0fef6ef14/artifacts', 1, NULL),
	('b2fc0e0fb419472c864eae41b5b5e17a', 'overjoyed-robin-403', 'UNKNOWN', '', '', 'unknown', 'FINISHED', 1796051671017, 1796051673254, '', 'active', 'mlflow-artifacts:/1/b2fc0e0fb419472c864eae41b5b5e17a/artifacts', 1, NULL),
	('b8720b9374894631bd84686080a83c8f', 'mysterious-sloth-554', 'UNKNOWN', '', '', 'unknown', 'FINISHED', 1796051673747, 1796051675442, '', 'active', 'mlflow-artifacts:/1/b8720b9374894631bd84686080a83c8f/artifacts', 1, NULL),
	('10d4cca6c6e04c569c9505cf7832a316', 'dazzling-rat-318', 'UNKNOWN', '', '', 'unknown', 'FINISHED', 1796051676419, 1796051678374, '', 'active', 'mlflow-artifacts:/1/10d4cca6c6e04c569c9505cf7832a316/artifacts', 1, NULL),
	('4ef3be7ac76848eda2133b3bf58371f5', 'unequaled-elk-668', 'UNKNOWN', '', '', 'unknown', 'FINISHED', 1796051679117, 1796051680724, '', 'active', 'mlflow-artifacts:/2/4ef3be7ac76848eda2133b3bf58371f5/artifacts', 2, NULL),
	('bbc46176bac440a2a03d10610a41ee66', 'capable-squid-328', 'UNKNOWN', '', '', 'unknown', 'FINISHED', 1796051681463, 1796051683282, '', 'active', 'mlflow-artifacts:/2/bbc46176bac440a2a03d10610a41ee66/artifacts', 2, NULL),
	('f3cdb4546ab24b7b897aa8b3c77ce96d', 'amazing-calf-306', 'UNKNOWN', '', '', 'unknown', 'FINISHED', 1796051683967, 1796051685527, '', 'active', 'mlflow-artifacts:/2/f3cdb4546ab24b7b897aa8b3c77ce96d/artifacts', 2, NULL),
	('feebec595b984cde8238e5f8a63c82d9', 'treasured-bat-219', 'UNKNOWN', '', '', 'unknown', 'FINISHED', 1796051686243, 1796051687255, '', 'active', 's3://mlflow-app/own/custom/feebec595b984cde8238e5f8a63c82d9/artifacts', 3, NULL),
	('294766fdc88744a28043b881cc15dbd6', 'stately-penguin-846', 'UNKNOWN', '', '', 'unknown', 'FINISHED', 1796051687883, 1796051688784, '', 'active', 's3://mlflow-app/own/custom/294766fdc88744a28043b881cc15dbd6/artifacts', 3, NULL),
	('b765228a9d2541d7bba3c2a5e61e0ffe', 'nosy-ray-541', 'UNKNOWN', '', '', 'root', 'FINISHED', 1796051692129, 1796051703639, '', 'active', 'mlflow-artifacts:/1/b765228a9d2541d7bba3c2a5e61e0ffe/artifacts', 1, NULL),
	('c48807bb5e944e66b4eabbbf9121a009', 'nosy-shrimp-288', 'UNKNOWN', '', '', 'unknown', 'FINISHED', 1796051648491, 1796051663046, '', 'deleted', 'mlflow-artifacts:/1/c48807bb5e944e66b4eabbbf9121a009/artifacts', 1, 1796051710583);
INSERT INTO public.spans VALUES
	('tr-d50357213cc2071f47aef2f29ab2025f', 2, '9b9dc092946da249', NULL, 'asked', 'UNKNOWN', 'OK', 1796051704797337321, 1796051704797774112, DEFAULT, '{"trace_id": "1QNXITzCBx9HrvLymrICXw==", "span_id": "m53AkpRtokk=", "parent_span_id": null, "name": "asked", "start_time_unix_nano": 1796051704797337321, "end_time_unix_nano": 1796051704797774112, "events": [], "status": {"code": "STATUS_CODE_OK", "message": ""}, "attributes": {"mlflow.traceRequestId": "\"tr-d50357213cc2071f47aef2f29ab2025f\"", "mlflow.spanType": "\"UNKNOWN\"", "mlflow.spanInputs": "{\"a\": 1}", "mlflow.spanLogLevel": "10"}, "links": []}', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.tags VALUES
	('mlflow.runName', 'nosy-shrimp-288', 'c48807bb5e944e66b4eabbbf9121a009'),
	('mlflow.runName', 'stylish-shark-35', '1017fd16c53342e6b4e41ee0fef6ef14'),
	('mlflow.runName', 'overjoyed-robin-403', 'b2fc0e0fb419472c864eae41b5b5e17a'),
	('mlflow.runName', 'mysterious-sloth-554', 'b8720b9374894631bd84686080a83c8f'),
	('mlflow.runName', 'dazzling-rat-318', '10d4cca6c6e04c569c9505cf7832a316'),
	('mlflow.runName', 'unequaled-elk-668', '4ef3be7ac76848eda2133b3bf58371f5'),
	('mlflow.runName', 'capable-squid-328', 'bbc46176bac440a2a03d10610a41ee66'),
	('mlflow.runName', 'amazing-calf-306', 'f3cdb4546ab24b7b897aa8b3c77ce96d'),
	('mlflow.runName', 'treasured-bat-219', 'feebec595b984cde8238e5f8a63c82d9'),
	('mlflow.runName', 'stately-penguin-846', '294766fdc88744a28043b881cc15dbd6'),
	('mlflow.user', 'root', 'b765228a9d2541d7bba3c2a5e61e0ffe'),
	('mlflow.source.name', '/app/mlflow_use.py', 'b765228a9d2541d7bba3c2a5e61e0ffe'),
	('mlflow.source.type', 'LOCAL', 'b765228a9d2541d7bba3c2a5e61e0ffe'),
	('mlflow.source.git.commit', '3d0f6d8cb4b722b4bf5ada9c49204916b8bb38a8', 'b765228a9d2541d7bba3c2a5e61e0ffe'),
	('mlflow.source.git.branch', 'fixtures', 'b765228a9d2541d7bba3c2a5e61e0ffe'),
	('mlflow.runName', 'nosy-ray-541', 'b765228a9d2541d7bba3c2a5e61e0ffe');
INSERT INTO public.trace_info VALUES
	('tr-d50357213cc2071f47aef2f29ab2025f', 2, 1796051704797, 0, 'OK', NULL, '{"a": 1}', NULL, 1, 'asked', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.trace_request_metadata VALUES
	('mlflow.source.git.branch', '', 'tr-d50357213cc2071f47aef2f29ab2025f'),
	('mlflow.source.git.commit', '', 'tr-d50357213cc2071f47aef2f29ab2025f'),
	('mlflow.source.git.repoURL', '', 'tr-d50357213cc2071f47aef2f29ab2025f'),
	('mlflow.source.name', '/app/mlflow_use.py', 'tr-d50357213cc2071f47aef2f29ab2025f'),
	('mlflow.source.type', 'LOCAL', 'tr-d50357213cc2071f47aef2f29ab2025f'),
	('mlflow.trace.infoFinalized', 'true', 'tr-d50357213cc2071f47aef2f29ab2025f'),
	('mlflow.trace.sizeBytes', '1148', 'tr-d50357213cc2071f47aef2f29ab2025f'),
	('mlflow.trace.sizeStats', '{"total_size_bytes": 1148, "num_spans": 1, "max": 458, "p25": 458, "p50": 458, "p75": 458}', 'tr-d50357213cc2071f47aef2f29ab2025f'),
	('mlflow.traceInputs', '{"a": 1}', 'tr-d50357213cc2071f47aef2f29ab2025f'),
	('mlflow.traceOutputs', '', 'tr-d50357213cc2071f47aef2f29ab2025f'),
	('mlflow.trace_schema.version', '3', 'tr-d50357213cc2071f47aef2f29ab2025f'),
	('mlflow.user', 'root', 'tr-d50357213cc2071f47aef2f29ab2025f');
INSERT INTO public.trace_tags VALUES
	('mlflow.artifactLocation', 'mlflow-artifacts:/2/traces/tr-d50357213cc2071f47aef2f29ab2025f/artifacts', 'tr-d50357213cc2071f47aef2f29ab2025f'),
	('mlflow.trace.spansLocation', 'TRACKING_STORE', 'tr-d50357213cc2071f47aef2f29ab2025f');
INSERT INTO public.workspaces VALUES
	('default', 'Default workspace for legacy resources', NULL, NULL, NULL);
SELECT pg_catalog.setval('public.experiments_experiment_id_seq', 3, true);
SELECT pg_catalog.setval('public.sql_assessment_daily_rollups_id_seq', 1, false);
SELECT pg_catalog.setval('public.sql_span_cost_daily_rollups_id_seq', 1, false);
SELECT pg_catalog.setval('public.sql_trace_metric_daily_rollups_id_seq', 1, false);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.assessments
    ADD CONSTRAINT assessments_pk PRIMARY KEY (assessment_id);
ALTER TABLE ONLY public.budget_policies
    ADD CONSTRAINT budget_policies_pk PRIMARY KEY (budget_policy_id);
ALTER TABLE ONLY public.datasets
    ADD CONSTRAINT dataset_pk PRIMARY KEY (experiment_id, name, digest);
ALTER TABLE ONLY public.endpoint_bindings
    ADD CONSTRAINT endpoint_bindings_pk PRIMARY KEY (endpoint_id, resource_type, resource_id);
ALTER TABLE ONLY public.endpoint_model_mappings
    ADD CONSTRAINT endpoint_model_mappings_pk PRIMARY KEY (mapping_id);
ALTER TABLE ONLY public.endpoint_tags
    ADD CONSTRAINT endpoint_tag_pk PRIMARY KEY (key, endpoint_id);
ALTER TABLE ONLY public.endpoints
    ADD CONSTRAINT endpoints_pk PRIMARY KEY (endpoint_id);
ALTER TABLE ONLY public.entity_associations
    ADD CONSTRAINT entity_associations_pk PRIMARY KEY (source_type, source_id, destination_type, destination_id);
ALTER TABLE ONLY public.evaluation_dataset_records
    ADD CONSTRAINT evaluation_dataset_records_pk PRIMARY KEY (dataset_record_id);
ALTER TABLE ONLY public.evaluation_dataset_tags
    ADD CONSTRAINT evaluation_dataset_tags_pk PRIMARY KEY (dataset_id, key);
ALTER TABLE ONLY public.evaluation_datasets
    ADD CONSTRAINT evaluation_datasets_pk PRIMARY KEY (dataset_id);
ALTER TABLE ONLY public.experiments
    ADD CONSTRAINT experiment_pk PRIMARY KEY (experiment_id);
ALTER TABLE ONLY public.experiment_tags
    ADD CONSTRAINT experiment_tag_pk PRIMARY KEY (key, experiment_id);
ALTER TABLE ONLY public.guardrail_configs
    ADD CONSTRAINT guardrail_configs_pk PRIMARY KEY (endpoint_id, guardrail_id);
ALTER TABLE ONLY public.guardrails
    ADD CONSTRAINT guardrails_pk PRIMARY KEY (guardrail_id);
ALTER TABLE ONLY public.input_tags
    ADD CONSTRAINT input_tags_pk PRIMARY KEY (input_uuid, name);
ALTER TABLE ONLY public.inputs
    ADD CONSTRAINT inputs_pk PRIMARY KEY (source_type, source_id, destination_type, destination_id);
ALTER TABLE ONLY public.issues
    ADD CONSTRAINT issues_pk PRIMARY KEY (issue_id);
ALTER TABLE ONLY public.job_locks
    ADD CONSTRAINT job_locks_pk PRIMARY KEY (lock_key);
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT jobs_pk PRIMARY KEY (id);
ALTER TABLE ONLY public.label_schemas
    ADD CONSTRAINT label_schemas_pk PRIMARY KEY (schema_id);
ALTER TABLE ONLY public.latest_metrics
    ADD CONSTRAINT latest_metric_pk PRIMARY KEY (key, run_uuid);
ALTER TABLE ONLY public.logged_model_metrics
    ADD CONSTRAINT logged_model_metrics_pk PRIMARY KEY (model_id, metric_name, metric_timestamp_ms, metric_step, run_id);
ALTER TABLE ONLY public.logged_model_params
    ADD CONSTRAINT logged_model_params_pk PRIMARY KEY (model_id, param_key);
ALTER TABLE ONLY public.logged_model_tags
    ADD CONSTRAINT logged_model_tags_pk PRIMARY KEY (model_id, tag_key);
ALTER TABLE ONLY public.logged_models
    ADD CONSTRAINT logged_models_pk PRIMARY KEY (model_id);
ALTER TABLE ONLY public.mcp_access_endpoints
    ADD CONSTRAINT mcp_access_endpoints_pk PRIMARY KEY (id);
ALTER TABLE ONLY public.mcp_server_aliases
    ADD CONSTRAINT mcp_server_aliases_pk PRIMARY KEY (workspace, name, alias);
ALTER TABLE ONLY public.mcp_server_tags
    ADD CONSTRAINT mcp_server_tags_pk PRIMARY KEY (workspace, name, key);
ALTER TABLE ONLY public.mcp_server_version_tags
    ADD CONSTRAINT mcp_server_version_tags_pk PRIMARY KEY (workspace, name, version, key);
ALTER TABLE ONLY public.mcp_server_versions
    ADD CONSTRAINT mcp_server_versions_pk PRIMARY KEY (workspace, name, version);
ALTER TABLE ONLY public.mcp_servers
    ADD CONSTRAINT mcp_servers_pk PRIMARY KEY (workspace, name);
ALTER TABLE ONLY public.metrics
    ADD CONSTRAINT metric_pk PRIMARY KEY (key, "timestamp", step, run_uuid, value, is_nan);
ALTER TABLE ONLY public.model_definitions
    ADD CONSTRAINT model_definitions_pk PRIMARY KEY (model_definition_id);
ALTER TABLE ONLY public.model_versions
    ADD CONSTRAINT model_version_pk PRIMARY KEY (workspace, name, version);
ALTER TABLE ONLY public.model_version_tags
    ADD CONSTRAINT model_version_tag_pk PRIMARY KEY (workspace, key, name, version);
ALTER TABLE ONLY public.online_scoring_configs
    ADD CONSTRAINT online_scoring_config_pk PRIMARY KEY (online_scoring_config_id);
ALTER TABLE ONLY public.params
    ADD CONSTRAINT param_pk PRIMARY KEY (key, run_uuid);
ALTER TABLE ONLY public.registered_model_aliases
    ADD CONSTRAINT registered_model_alias_pk PRIMARY KEY (workspace, name, alias);
ALTER TABLE ONLY public.registered_models
    ADD CONSTRAINT registered_model_pk PRIMARY KEY (workspace, name);
ALTER TABLE ONLY public.registered_model_tags
    ADD CONSTRAINT registered_model_tag_pk PRIMARY KEY (workspace, key, name);
ALTER TABLE ONLY public.review_queue_items
    ADD CONSTRAINT review_queue_items_pk PRIMARY KEY (queue_id, item_id);
ALTER TABLE ONLY public.review_queue_label_schemas
    ADD CONSTRAINT review_queue_label_schemas_pk PRIMARY KEY (queue_id, schema_id);
ALTER TABLE ONLY public.review_queue_users
    ADD CONSTRAINT review_queue_users_pk PRIMARY KEY (queue_id, user_id);
ALTER TABLE ONLY public.review_queues
    ADD CONSTRAINT review_queues_pk PRIMARY KEY (queue_id);
ALTER TABLE ONLY public.runs
    ADD CONSTRAINT run_pk PRIMARY KEY (run_uuid);
ALTER TABLE ONLY public.scheduler_leases
    ADD CONSTRAINT scheduler_leases_pk PRIMARY KEY (lease_key);
ALTER TABLE ONLY public.scorers
    ADD CONSTRAINT scorer_pk PRIMARY KEY (scorer_id);
ALTER TABLE ONLY public.scorer_versions
    ADD CONSTRAINT scorer_version_pk PRIMARY KEY (scorer_id, scorer_version);
ALTER TABLE ONLY public.secrets
    ADD CONSTRAINT secrets_pk PRIMARY KEY (secret_id);
ALTER TABLE ONLY public.span_metrics
    ADD CONSTRAINT span_metrics_pk PRIMARY KEY (trace_id, span_id, key);
ALTER TABLE ONLY public.spans
    ADD CONSTRAINT spans_pk PRIMARY KEY (trace_id, span_id);
ALTER TABLE ONLY public.sql_assessment_daily_rollups
    ADD CONSTRAINT sql_assessment_daily_rollups_pk PRIMARY KEY (id);
ALTER TABLE ONLY public.sql_span_cost_daily_rollups
    ADD CONSTRAINT sql_span_cost_daily_rollups_pk PRIMARY KEY (id);
ALTER TABLE ONLY public.sql_trace_metric_daily_rollups
    ADD CONSTRAINT sql_trace_metric_daily_rollups_pk PRIMARY KEY (id);
ALTER TABLE ONLY public.sql_trace_rollup_rebuild_queue
    ADD CONSTRAINT sql_trace_rollup_rebuild_queue_pk PRIMARY KEY (experiment_id, rollup_day, rollup_family);
ALTER TABLE ONLY public.tags
    ADD CONSTRAINT tag_pk PRIMARY KEY (key, run_uuid);
ALTER TABLE ONLY public.trace_info
    ADD CONSTRAINT trace_info_pk PRIMARY KEY (request_id);
ALTER TABLE ONLY public.trace_metrics
    ADD CONSTRAINT trace_metrics_pk PRIMARY KEY (request_id, key);
ALTER TABLE ONLY public.trace_request_metadata
    ADD CONSTRAINT trace_request_metadata_pk PRIMARY KEY (key, request_id);
ALTER TABLE ONLY public.trace_tags
    ADD CONSTRAINT trace_tag_pk PRIMARY KEY (key, request_id);
ALTER TABLE ONLY public.evaluation_dataset_records
    ADD CONSTRAINT unique_dataset_input UNIQUE (dataset_id, input_hash);
ALTER TABLE ONLY public.endpoints
    ADD CONSTRAINT uq_endpoints_workspace_name UNIQUE (workspace, name);
ALTER TABLE ONLY public.experiments
    ADD CONSTRAINT uq_experiments_workspace_name UNIQUE (workspace, name);
ALTER TABLE ONLY public.label_schemas
    ADD CONSTRAINT uq_label_schemas_exp_name UNIQUE (experiment_id, name);
ALTER TABLE ONLY public.model_definitions
    ADD CONSTRAINT uq_model_definitions_workspace_name UNIQUE (workspace, name);
ALTER TABLE ONLY public.review_queues
    ADD CONSTRAINT uq_review_queues_experiment_name_key UNIQUE (experiment_id, name_key);
ALTER TABLE ONLY public.secrets
    ADD CONSTRAINT uq_secrets_workspace_secret_name UNIQUE (workspace, secret_name);
ALTER TABLE ONLY public.webhook_events
    ADD CONSTRAINT webhook_event_pk PRIMARY KEY (webhook_id, entity, action);
ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT webhook_pk PRIMARY KEY (webhook_id);
ALTER TABLE ONLY public.workspaces
    ADD CONSTRAINT workspaces_pk PRIMARY KEY (name);
CREATE INDEX idx_assessment_rollups_lookup ON public.sql_assessment_daily_rollups USING btree (experiment_id, rollup_day, metric_name, grouping_set);
CREATE INDEX idx_assessments_exp_name_valid ON public.assessments USING btree (experiment_id, name, valid);
CREATE INDEX idx_assessments_exp_trace_ts ON public.assessments USING btree (experiment_id, trace_timestamp_ms);
CREATE INDEX idx_assessments_exp_trace_ts_name ON public.assessments USING btree (experiment_id, trace_timestamp_ms, name);
CREATE INDEX idx_budget_policies_target_value ON public.budget_policies USING btree (target_value);
CREATE INDEX idx_budget_policies_workspace ON public.budget_policies USING btree (workspace);
CREATE INDEX idx_endpoints_workspace ON public.endpoints USING btree (workspace);
CREATE INDEX idx_evaluation_datasets_workspace ON public.evaluation_datasets USING btree (workspace);
CREATE INDEX idx_experiments_workspace ON public.experiments USING btree (workspace);
CREATE INDEX idx_experiments_workspace_creation_time ON public.experiments USING btree (workspace, creation_time);
CREATE INDEX idx_guardrail_configs_endpoint_id ON public.guardrail_configs USING btree (endpoint_id);
CREATE INDEX idx_guardrail_configs_guardrail_id ON public.guardrail_configs USING btree (guardrail_id);
CREATE INDEX idx_guardrails_scorer ON public.guardrails USING btree (scorer_id, scorer_version);
CREATE INDEX idx_guardrails_workspace ON public.guardrails USING btree (workspace);
CREATE INDEX idx_mcp_server_versions_latest ON public.mcp_server_versions USING btree (workspace, name, status, version_major DESC, version_minor DESC, version_patch DESC);
CREATE INDEX idx_model_definitions_workspace ON public.model_definitions USING btree (workspace);
CREATE INDEX idx_model_version_tags_workspace_name_version ON public.model_version_tags USING btree (workspace, name, version);
CREATE INDEX idx_registered_model_tags_workspace_name ON public.registered_model_tags USING btree (workspace, name);
CREATE INDEX idx_registered_models_workspace ON public.registered_models USING btree (workspace);
CREATE INDEX idx_secrets_workspace ON public.secrets USING btree (workspace);
CREATE INDEX idx_span_cost_rollups_lookup ON public.sql_span_cost_daily_rollups USING btree (experiment_id, rollup_day, metric_name, grouping_set, model_name, model_provider);
CREATE INDEX idx_spans_cost_exp_time_cover ON public.spans USING btree (experiment_id, start_time_unix_nano) INCLUDE (input_cost, output_cost, total_cost, model_name, model_provider) WHERE ((input_cost IS NOT NULL) OR (output_cost IS NOT NULL) OR (total_cost IS NOT NULL));
CREATE INDEX idx_spans_cost_trace_time_cover ON public.spans USING btree (trace_id, start_time_unix_nano) INCLUDE (input_cost, output_cost, total_cost, model_name, model_provider) WHERE ((input_cost IS NOT NULL) OR (output_cost IS NOT NULL) OR (total_cost IS NOT NULL));
CREATE INDEX idx_trace_rollups_lookup ON public.sql_trace_metric_daily_rollups USING btree (experiment_id, rollup_day, metric_name, grouping_set, trace_status);
CREATE INDEX idx_webhook_events_action ON public.webhook_events USING btree (action);
CREATE INDEX idx_webhook_events_entity ON public.webhook_events USING btree (entity);
CREATE INDEX idx_webhook_events_entity_action ON public.webhook_events USING btree (entity, action);
CREATE INDEX idx_webhooks_name ON public.webhooks USING btree (name);
CREATE INDEX idx_webhooks_status ON public.webhooks USING btree (status);
CREATE INDEX idx_webhooks_workspace ON public.webhooks USING btree (workspace);
CREATE INDEX index_assessments_assessment_type ON public.assessments USING btree (assessment_type);
CREATE INDEX index_assessments_last_updated_timestamp ON public.assessments USING btree (last_updated_timestamp);
CREATE INDEX index_assessments_run_id_created_timestamp ON public.assessments USING btree (run_id, created_timestamp);
CREATE INDEX index_assessments_trace_id_created_timestamp ON public.assessments USING btree (trace_id, created_timestamp);
CREATE INDEX index_datasets_dataset_uuid ON public.datasets USING btree (dataset_uuid);
CREATE INDEX index_datasets_experiment_id_dataset_source_type ON public.datasets USING btree (experiment_id, dataset_source_type);
CREATE INDEX index_endpoint_model_mappings_endpoint_id ON public.endpoint_model_mappings USING btree (endpoint_id);
CREATE INDEX index_endpoint_model_mappings_model_definition_id ON public.endpoint_model_mappings USING btree (model_definition_id);
CREATE INDEX index_endpoint_tags_endpoint_id ON public.endpoint_tags USING btree (endpoint_id);
CREATE INDEX index_entity_associations_association_id ON public.entity_associations USING btree (association_id);
CREATE INDEX index_entity_associations_reverse_lookup ON public.entity_associations USING btree (destination_type, destination_id, source_type, source_id);
CREATE INDEX index_evaluation_dataset_records_dataset_id ON public.evaluation_dataset_records USING btree (dataset_id);
CREATE INDEX index_evaluation_dataset_tags_dataset_id ON public.evaluation_dataset_tags USING btree (dataset_id);
CREATE INDEX index_evaluation_datasets_created_time ON public.evaluation_datasets USING btree (created_time);
CREATE INDEX index_evaluation_datasets_name ON public.evaluation_datasets USING btree (name);
CREATE INDEX index_inputs_destination_type_destination_id_source_type ON public.inputs USING btree (destination_type, destination_id, source_type);
CREATE INDEX index_inputs_input_uuid ON public.inputs USING btree (input_uuid);
CREATE INDEX index_issues_experiment_id ON public.issues USING btree (experiment_id);
CREATE INDEX index_issues_source_run_id ON public.issues USING btree (source_run_id);
CREATE INDEX index_issues_status ON public.issues USING btree (status);
CREATE INDEX index_job_locks_job_id ON public.job_locks USING btree (job_id);
CREATE INDEX index_jobs_name_status_creation_time ON public.jobs USING btree (job_name, workspace, status, creation_time);
CREATE INDEX index_jobs_status_lease_expires_at ON public.jobs USING btree (status, lease_expires_at);
CREATE INDEX index_label_schemas_experiment_id ON public.label_schemas USING btree (experiment_id);
CREATE INDEX index_latest_metrics_run_uuid ON public.latest_metrics USING btree (run_uuid);
CREATE INDEX index_logged_model_metrics_model_id ON public.logged_model_metrics USING btree (model_id);
CREATE INDEX index_metrics_run_uuid ON public.metrics USING btree (run_uuid);
CREATE INDEX index_metrics_run_uuid_key_step ON public.metrics USING btree (run_uuid, key, step);
CREATE INDEX index_model_definitions_provider ON public.model_definitions USING btree (provider);
CREATE INDEX index_model_definitions_secret_id ON public.model_definitions USING btree (secret_id);
CREATE INDEX index_params_run_uuid ON public.params USING btree (run_uuid);
CREATE INDEX index_review_queue_items_item_id ON public.review_queue_items USING btree (item_id);
CREATE INDEX index_review_queue_items_queue_id_status ON public.review_queue_items USING btree (queue_id, status);
CREATE INDEX index_review_queue_label_schemas_schema_id ON public.review_queue_label_schemas USING btree (schema_id);
CREATE INDEX index_review_queue_users_user_id ON public.review_queue_users USING btree (user_id);
CREATE INDEX index_review_queues_experiment_id ON public.review_queues USING btree (experiment_id);
CREATE INDEX index_scorer_versions_scorer_id ON public.scorer_versions USING btree (scorer_id);
CREATE UNIQUE INDEX index_scorers_experiment_id_scorer_name ON public.scorers USING btree (experiment_id, scorer_name);
CREATE INDEX index_span_metrics_trace_id_span_id ON public.span_metrics USING btree (trace_id, span_id);
CREATE INDEX index_spans_experiment_id_duration ON public.spans USING btree (experiment_id, duration_ns);
CREATE INDEX index_spans_experiment_id_start_time ON public.spans USING btree (experiment_id, start_time_unix_nano);
CREATE INDEX index_spans_experiment_id_status_type ON public.spans USING btree (experiment_id, status, type);
CREATE INDEX index_spans_experiment_id_type_status ON public.spans USING btree (experiment_id, type, status);
CREATE INDEX index_tags_run_uuid ON public.tags USING btree (run_uuid);
CREATE INDEX index_trace_info_experiment_id_session_id ON public.trace_info USING btree (experiment_id, session_id);
CREATE INDEX index_trace_info_experiment_id_timestamp_ms ON public.trace_info USING btree (experiment_id, timestamp_ms);
CREATE INDEX index_trace_info_timestamp_ms_request_id ON public.trace_info USING btree (timestamp_ms, request_id);
CREATE INDEX index_trace_metrics_request_id ON public.trace_metrics USING btree (request_id);
CREATE INDEX index_trace_request_metadata_request_id ON public.trace_request_metadata USING btree (request_id);
CREATE INDEX index_trace_tags_request_id ON public.trace_tags USING btree (request_id);
CREATE INDEX ix_mcp_access_endpoints_alias ON public.mcp_access_endpoints USING btree (workspace, server_name, server_alias);
CREATE INDEX ix_mcp_access_endpoints_server_name ON public.mcp_access_endpoints USING btree (workspace, server_name);
CREATE INDEX ix_mcp_access_endpoints_version ON public.mcp_access_endpoints USING btree (workspace, server_name, server_version);
CREATE UNIQUE INDEX unique_endpoint_model_linkage_mapping ON public.endpoint_model_mappings USING btree (endpoint_id, model_definition_id, linkage_type);
CREATE TRIGGER prevent_secrets_aad_mutation BEFORE UPDATE ON public.secrets FOR EACH ROW EXECUTE FUNCTION public.prevent_secrets_aad_mutation();
ALTER TABLE ONLY public.experiment_tags
    ADD CONSTRAINT experiment_tags_experiment_id_fkey FOREIGN KEY (experiment_id) REFERENCES public.experiments(experiment_id);
ALTER TABLE ONLY public.assessments
    ADD CONSTRAINT fk_assessments_trace_id FOREIGN KEY (trace_id) REFERENCES public.trace_info(request_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.datasets
    ADD CONSTRAINT fk_datasets_experiment_id_experiments FOREIGN KEY (experiment_id) REFERENCES public.experiments(experiment_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.endpoint_bindings
    ADD CONSTRAINT fk_endpoint_bindings_endpoint_id FOREIGN KEY (endpoint_id) REFERENCES public.endpoints(endpoint_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.endpoint_model_mappings
    ADD CONSTRAINT fk_endpoint_model_mappings_endpoint_id FOREIGN KEY (endpoint_id) REFERENCES public.endpoints(endpoint_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.endpoint_model_mappings
    ADD CONSTRAINT fk_endpoint_model_mappings_model_definition_id FOREIGN KEY (model_definition_id) REFERENCES public.model_definitions(model_definition_id);
ALTER TABLE ONLY public.endpoint_tags
    ADD CONSTRAINT fk_endpoint_tags_endpoint_id FOREIGN KEY (endpoint_id) REFERENCES public.endpoints(endpoint_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.endpoints
    ADD CONSTRAINT fk_endpoints_experiment_id FOREIGN KEY (experiment_id) REFERENCES public.experiments(experiment_id) ON DELETE SET NULL;
ALTER TABLE ONLY public.evaluation_dataset_records
    ADD CONSTRAINT fk_evaluation_dataset_records_dataset_id FOREIGN KEY (dataset_id) REFERENCES public.evaluation_datasets(dataset_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.evaluation_dataset_tags
    ADD CONSTRAINT fk_evaluation_dataset_tags_dataset_id FOREIGN KEY (dataset_id) REFERENCES public.evaluation_datasets(dataset_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.guardrail_configs
    ADD CONSTRAINT fk_guardrail_configs_endpoint_id FOREIGN KEY (endpoint_id) REFERENCES public.endpoints(endpoint_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.guardrail_configs
    ADD CONSTRAINT fk_guardrail_configs_guardrail_id FOREIGN KEY (guardrail_id) REFERENCES public.guardrails(guardrail_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.guardrails
    ADD CONSTRAINT fk_guardrails_action_endpoint_id FOREIGN KEY (action_endpoint_id) REFERENCES public.endpoints(endpoint_id) ON DELETE SET NULL;
ALTER TABLE ONLY public.guardrails
    ADD CONSTRAINT fk_guardrails_scorer_version FOREIGN KEY (scorer_id, scorer_version) REFERENCES public.scorer_versions(scorer_id, scorer_version);
ALTER TABLE ONLY public.issues
    ADD CONSTRAINT fk_issues_experiment_id FOREIGN KEY (experiment_id) REFERENCES public.experiments(experiment_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.issues
    ADD CONSTRAINT fk_issues_source_run_id FOREIGN KEY (source_run_id) REFERENCES public.runs(run_uuid) ON DELETE SET NULL;
ALTER TABLE ONLY public.job_locks
    ADD CONSTRAINT fk_job_locks_job_id FOREIGN KEY (job_id) REFERENCES public.jobs(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.label_schemas
    ADD CONSTRAINT fk_label_schemas_experiment_id FOREIGN KEY (experiment_id) REFERENCES public.experiments(experiment_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.logged_model_metrics
    ADD CONSTRAINT fk_logged_model_metrics_experiment_id FOREIGN KEY (experiment_id) REFERENCES public.experiments(experiment_id);
ALTER TABLE ONLY public.logged_model_metrics
    ADD CONSTRAINT fk_logged_model_metrics_model_id FOREIGN KEY (model_id) REFERENCES public.logged_models(model_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.logged_model_metrics
    ADD CONSTRAINT fk_logged_model_metrics_run_id FOREIGN KEY (run_id) REFERENCES public.runs(run_uuid) ON DELETE CASCADE;
ALTER TABLE ONLY public.logged_model_params
    ADD CONSTRAINT fk_logged_model_params_experiment_id FOREIGN KEY (experiment_id) REFERENCES public.experiments(experiment_id);
ALTER TABLE ONLY public.logged_model_params
    ADD CONSTRAINT fk_logged_model_params_model_id FOREIGN KEY (model_id) REFERENCES public.logged_models(model_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.logged_model_tags
    ADD CONSTRAINT fk_logged_model_tags_experiment_id FOREIGN KEY (experiment_id) REFERENCES public.experiments(experiment_id);
ALTER TABLE ONLY public.logged_model_tags
    ADD CONSTRAINT fk_logged_model_tags_model_id FOREIGN KEY (model_id) REFERENCES public.logged_models(model_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.logged_models
    ADD CONSTRAINT fk_logged_models_experiment_id FOREIGN KEY (experiment_id) REFERENCES public.experiments(experiment_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.model_definitions
    ADD CONSTRAINT fk_model_definitions_secret_id FOREIGN KEY (secret_id) REFERENCES public.secrets(secret_id) ON DELETE SET NULL;
ALTER TABLE ONLY public.model_version_tags
    ADD CONSTRAINT fk_model_version_tags_model_versions FOREIGN KEY (workspace, name, version) REFERENCES public.model_versions(workspace, name, version) ON UPDATE CASCADE;
ALTER TABLE ONLY public.model_versions
    ADD CONSTRAINT fk_model_versions_registered_models FOREIGN KEY (workspace, name) REFERENCES public.registered_models(workspace, name) ON UPDATE CASCADE;
ALTER TABLE ONLY public.online_scoring_configs
    ADD CONSTRAINT fk_online_scoring_configs_experiment_id FOREIGN KEY (experiment_id) REFERENCES public.experiments(experiment_id);
ALTER TABLE ONLY public.online_scoring_configs
    ADD CONSTRAINT fk_online_scoring_configs_scorer_id FOREIGN KEY (scorer_id) REFERENCES public.scorers(scorer_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.registered_model_aliases
    ADD CONSTRAINT fk_registered_model_aliases_registered_models FOREIGN KEY (workspace, name) REFERENCES public.registered_models(workspace, name) ON UPDATE CASCADE ON DELETE CASCADE;
ALTER TABLE ONLY public.registered_model_tags
    ADD CONSTRAINT fk_registered_model_tags_registered_models FOREIGN KEY (workspace, name) REFERENCES public.registered_models(workspace, name) ON UPDATE CASCADE;
ALTER TABLE ONLY public.review_queue_items
    ADD CONSTRAINT fk_review_queue_items_queue_id FOREIGN KEY (queue_id) REFERENCES public.review_queues(queue_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.review_queue_label_schemas
    ADD CONSTRAINT fk_review_queue_label_schemas_queue_id FOREIGN KEY (queue_id) REFERENCES public.review_queues(queue_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.review_queue_users
    ADD CONSTRAINT fk_review_queue_users_queue_id FOREIGN KEY (queue_id) REFERENCES public.review_queues(queue_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.review_queues
    ADD CONSTRAINT fk_review_queues_experiment_id FOREIGN KEY (experiment_id) REFERENCES public.experiments(experiment_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.scorer_versions
    ADD CONSTRAINT fk_scorer_versions_scorer_id FOREIGN KEY (scorer_id) REFERENCES public.scorers(scorer_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.scorers
    ADD CONSTRAINT fk_scorers_experiment_id FOREIGN KEY (experiment_id) REFERENCES public.experiments(experiment_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.span_metrics
    ADD CONSTRAINT fk_span_metrics_span FOREIGN KEY (trace_id, span_id) REFERENCES public.spans(trace_id, span_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.spans
    ADD CONSTRAINT fk_spans_experiment_id FOREIGN KEY (experiment_id) REFERENCES public.experiments(experiment_id);
ALTER TABLE ONLY public.spans
    ADD CONSTRAINT fk_spans_trace_id FOREIGN KEY (trace_id) REFERENCES public.trace_info(request_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.trace_info
    ADD CONSTRAINT fk_trace_info_experiment_id FOREIGN KEY (experiment_id) REFERENCES public.experiments(experiment_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.trace_metrics
    ADD CONSTRAINT fk_trace_metrics_request_id FOREIGN KEY (request_id) REFERENCES public.trace_info(request_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.trace_request_metadata
    ADD CONSTRAINT fk_trace_request_metadata_request_id FOREIGN KEY (request_id) REFERENCES public.trace_info(request_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.trace_tags
    ADD CONSTRAINT fk_trace_tags_request_id FOREIGN KEY (request_id) REFERENCES public.trace_info(request_id) ON DELETE CASCADE;
ALTER TABLE ONLY public.latest_metrics
    ADD CONSTRAINT latest_metrics_run_uuid_fkey FOREIGN KEY (run_uuid) REFERENCES public.runs(run_uuid);
ALTER TABLE ONLY public.mcp_access_endpoints
    ADD CONSTRAINT mcp_access_endpoints_server_fkey FOREIGN KEY (workspace, server_name) REFERENCES public.mcp_servers(workspace, name) ON UPDATE CASCADE ON DELETE CASCADE;
ALTER TABLE ONLY public.mcp_server_aliases
    ADD CONSTRAINT mcp_server_aliases_server_fkey FOREIGN KEY (workspace, name) REFERENCES public.mcp_servers(workspace, name) ON UPDATE CASCADE ON DELETE CASCADE;
ALTER TABLE ONLY public.mcp_server_tags
    ADD CONSTRAINT mcp_server_tags_server_fkey FOREIGN KEY (workspace, name) REFERENCES public.mcp_servers(workspace, name) ON UPDATE CASCADE ON DELETE CASCADE;
ALTER TABLE ONLY public.mcp_server_version_tags
    ADD CONSTRAINT mcp_server_version_tags_version_fkey FOREIGN KEY (workspace, name, version) REFERENCES public.mcp_server_versions(workspace, name, version) ON UPDATE CASCADE ON DELETE CASCADE;
ALTER TABLE ONLY public.mcp_server_versions
    ADD CONSTRAINT mcp_server_versions_server_fkey FOREIGN KEY (workspace, name) REFERENCES public.mcp_servers(workspace, name) ON UPDATE CASCADE ON DELETE CASCADE;
ALTER TABLE ONLY public.metrics
    ADD CONSTRAINT metrics_run_uuid_fkey FOREIGN KEY (run_uuid) REFERENCES public.runs(run_uuid);
ALTER TABLE ONLY public.params
    ADD CONSTRAINT params_run_uuid_fkey FOREIGN KEY (run_uuid) REFERENCES public.runs(run_uuid);
ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_experiment_id_fkey FOREIGN KEY (experiment_id) REFERENCES public.experiments(experiment_id);
ALTER TABLE ONLY public.tags
    ADD CONSTRAINT tags_run_uuid_fkey FOREIGN KEY (run_uuid) REFERENCES public.runs(run_uuid);
ALTER TABLE ONLY public.webhook_events
    ADD CONSTRAINT webhook_events_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES public.webhooks(webhook_id) ON DELETE CASCADE;
