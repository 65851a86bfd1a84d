CREATE TABLE public.article (
    id integer NOT NULL,
    cover uuid,
    body text,
    status character varying(255)
);
CREATE SEQUENCE public.article_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.article_id_seq OWNED BY public.article.id;
CREATE TABLE public.directus_access (
    id uuid NOT NULL,
    role uuid,
    "user" uuid,
    policy uuid NOT NULL,
    sort integer
);
CREATE TABLE public.directus_activity (
    id integer NOT NULL,
    action character varying(45) NOT NULL,
    "user" uuid,
    "timestamp" timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    ip character varying(50),
    user_agent text,
    collection character varying(64) NOT NULL,
    item character varying(255) NOT NULL,
    comment text,
    origin character varying(255)
);
CREATE SEQUENCE public.directus_activity_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.directus_activity_id_seq OWNED BY public.directus_activity.id;
CREATE TABLE public.directus_collections (
    collection character varying(64) NOT NULL,
    icon character varying(64),
    note text,
    display_template character varying(255),
    hidden boolean DEFAULT false NOT NULL,
    singleton boolean DEFAULT false NOT NULL,
    translations json,
    archive_field character varying(64),
    archive_app_filter boolean DEFAULT true NOT NULL,
    archive_value character varying(255),
    unarchive_value character varying(255),
    sort_field character varying(64),
    accountability character varying(255) DEFAULT 'all'::character varying,
    color character varying(255),
    item_duplication_fields json,
    sort integer,
    "group" character varying(64),
    collapse character varying(255) DEFAULT 'open'::character varying NOT NULL,
    preview_url character varying(255),
    versioning boolean DEFAULT false NOT NULL
);
CREATE TABLE public.directus_dashboards (
    id uuid NOT NULL,
    name character varying(255) NOT NULL,
    icon character varying(64) DEFAULT 'dashboard'::character varying NOT NULL,
    note text,
    date_created timestamp with time zone DEFAULT CURRENT_TIMESTAMP,
    user_created uuid,
    color character varying(255)
);
CREATE TABLE public.directus_extensions (
    enabled boolean DEFAULT true NOT NULL,
    id uuid NOT NULL,
    folder character varying(255) NOT NULL,
    source character varying(255) NOT NULL,
    bundle uuid
);
CREATE TABLE public.directus_fields (
    id integer NOT NULL,
    collection character varying(64) NOT NULL,
    field character varying(64) NOT NULL,
    special character varying(64),
    interface character varying(64),
    options json,
    display character varying(64),
    display_options json,
    readonly boolean DEFAULT false NOT NULL,
    hidden boolean DEFAULT false NOT NULL,
    sort integer,
    width character varying(30) DEFAULT 'full'::character varying,
    translations json,
    note text,
    conditions json,
    required boolean DEFAULT false,
    "group" character varying(64),
    validation json,
    validation_message text
);
CREATE SEQUENCE public.directus_fields_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.directus_fields_id_seq OWNED BY public.directus_fields.id;
CREATE TABLE public.directus_files (
    id uuid NOT NULL,
    storage character varying(255) NOT NULL,
    filename_disk character varying(255),
    filename_download character varying(255) NOT NULL,
    title character varying(255),
    type character varying(255),
    folder uuid,
    uploaded_by uuid,
    created_on timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    modified_by uuid,
    modified_on timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    charset character varying(50),
    filesize bigint,
    width integer,
    height integer,
    duration integer,
    embed character varying(200),
    description text,
    location text,
    tags text,
    metadata json,
    focal_point_x integer,
    focal_point_y integer,
    tus_id character varying(64),
    tus_data json,
    uploaded_on timestamp with time zone
);
CREATE TABLE public.directus_flows (
    id uuid NOT NULL,
    name character varying(255) NOT NULL,
    icon character varying(64),
    color character varying(255),
    description text,
    status character varying(255) DEFAULT 'active'::character varying NOT NULL,
    trigger character varying(255),
    accountability character varying(255) DEFAULT 'all'::character varying,
    options json,
    operation uuid,
    date_created timestamp with time zone DEFAULT CURRENT_TIMESTAMP,
    user_created uuid
);
CREATE TABLE public.directus_folders (
    id uuid NOT NULL,
    name character varying(255) NOT NULL,
    parent uuid
);
CREATE TABLE public.directus_migrations (
    version character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    "timestamp" timestamp with time zone DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE public.directus_notifications (
    id integer NOT NULL,
    "timestamp" timestamp with time zone DEFAULT CURRENT_TIMESTAMP,
    status character varying(255) DEFAULT 'inbox'::character varying,
    recipient uuid NOT NULL,
    sender uuid,
    subject character varying(255) NOT NULL,
    message text,
    collection character varying(64),
    item character varying(255)
);
CREATE SEQUENCE public.directus_notifications_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.directus_notifications_id_seq OWNED BY public.directus_notifications.id;
CREATE TABLE public.directus_operations (
    id uuid NOT NULL,
    name character varying(255),
    key character varying(255) NOT NULL,
    type character varying(255) NOT NULL,
    position_x integer NOT NULL,
    position_y integer NOT NULL,
    options json,
    resolve uuid,
    reject uuid,
    flow uuid NOT NULL,
    date_created timestamp with time zone DEFAULT CURRENT_TIMESTAMP,
    user_created uuid
);
CREATE TABLE public.directus_panels (
    id uuid NOT NULL,
    dashboard uuid NOT NULL,
    name character varying(255),
    icon character varying(64) DEFAULT NULL::character varying,
    color character varying(10),
    show_header boolean DEFAULT false NOT NULL,
    note text,
    type character varying(255) NOT NULL,
    position_x integer NOT NULL,
    position_y integer NOT NULL,
    width integer NOT NULL,
    height integer NOT NULL,
    options json,
    date_created timestamp with time zone DEFAULT CURRENT_TIMESTAMP,
    user_created uuid
);
CREATE TABLE public.directus_permissions (
    id integer NOT NULL,
    collection character varying(64) NOT NULL,
    action character varying(10) NOT NULL,
    permissions json,
    validation json,
    presets json,
    fields text,
    policy uuid NOT NULL
);
CREATE SEQUENCE public.directus_permissions_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.directus_permissions_id_seq OWNED BY public.directus_permissions.id;
CREATE TABLE public.directus_policies (
    id uuid NOT NULL,
    name character varying(100) NOT NULL,
    icon character varying(64) DEFAULT 'badge'::character varying NOT NULL,
    description text,
    ip_access text,
    enforce_tfa boolean DEFAULT false NOT NULL,
    admin_access boolean DEFAULT false NOT NULL,
    app_access boolean DEFAULT false NOT NULL
);
CREATE TABLE public.directus_presets (
    id integer NOT NULL,
    bookmark character varying(255),
    "user" uuid,
    role uuid,
    collection character varying(64),
    search character varying(100),
    layout character varying(100) DEFAULT 'tabular'::character varying,
    layout_query json,
    layout_options json,
    refresh_interval integer,
    filter json,
    icon character varying(64) DEFAULT 'bookmark'::character varying,
    color character varying(255)
);
CREATE SEQUENCE public.directus_presets_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.directus_presets_id_seq OWNED BY public.directus_presets.id;
CREATE TABLE public.directus_relations (
    id integer NOT NULL,
    many_collection character varying(64) NOT NULL,
    many_field character varying(64) NOT NULL,
    one_collection character varying(64),
    one_field character varying(64),
    one_collection_field character varying(64),
    one_allowed_collections text,
    junction_field character varying(64),
    sort_field character varying(64),
    one_deselect_action character varying(255) DEFAULT 'nullify'::character varying NOT NULL
);
CREATE SEQUENCE public.directus_relations_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.directus_relations_id_seq OWNED BY public.directus_relations.id;
CREATE TABLE public.directus_revisions (
    id integer NOT NULL,
    activity integer NOT NULL,
    collection character varying(64) NOT NULL,
    item character varying(255) NOT NULL,
    data json,
    delta json,
    parent integer,
    version uuid
);
CREATE SEQUENCE public.directus_revisions_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.directus_revisions_id_seq OWNED BY public.directus_revisions.id;
CREATE TABLE public.directus_roles (
    id uuid NOT NULL,
    name character varying(100) NOT NULL,
    icon character varying(64) DEFAULT 'supervised_user_circle'::character varying NOT NULL,
    description text,
    parent uuid
);
CREATE TABLE public.directus_sessions (
    token character varying(64) NOT NULL,
    "user" uuid,
    expires timestamp with time zone NOT NULL,
    ip character varying(255),
    user_agent text,
    share uuid,
    origin character varying(255),
    next_token character varying(64)
);
CREATE TABLE public.directus_settings (
    id integer NOT NULL,
    project_name character varying(100) DEFAULT 'Directus'::character varying NOT NULL,
    project_url character varying(255),
    project_color character varying(255) DEFAULT '#6644FF'::character varying NOT NULL,
    project_logo uuid,
    public_foreground uuid,
    public_background uuid,
    public_note text,
    auth_login_attempts integer DEFAULT 25,
    auth_password_policy character varying(100),
    storage_asset_transform character varying(7) DEFAULT 'all'::character varying,
    storage_asset_presets json,
    custom_css text,
    storage_default_folder uuid,
    basemaps json,
    mapbox_key character varying(255),
    module_bar json,
    project_descriptor character varying(100),
    default_language character varying(255) DEFAULT 'en-US'::character varying NOT NULL,
    custom_aspect_ratios json,
    public_favicon uuid,
    default_appearance character varying(255) DEFAULT 'auto'::character varying NOT NULL,
    default_theme_light character varying(255),
    theme_light_overrides json,
    default_theme_dark character varying(255),
    theme_dark_overrides json,
    report_error_url character varying(255),
    report_bug_url character varying(255),
    report_feature_url character varying(255),
    public_registration boolean DEFAULT false NOT NULL,
    public_registration_verify_email boolean DEFAULT true NOT NULL,
    public_registration_role uuid,
    public_registration_email_filter json
);
CREATE SEQUENCE public.directus_settings_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.directus_settings_id_seq OWNED BY public.directus_settings.id;
CREATE TABLE public.directus_shares (
    id uuid NOT NULL,
    name character varying(255),
    collection character varying(64) NOT NULL,
    item character varying(255) NOT NULL,
    role uuid,
    password character varying(255),
    user_created uuid,
    date_created timestamp with time zone DEFAULT CURRENT_TIMESTAMP,
    date_start timestamp with time zone,
    date_end timestamp with time zone,
    times_used integer DEFAULT 0,
    max_uses integer
);
CREATE TABLE public.directus_translations (
    id uuid NOT NULL,
    language character varying(255) NOT NULL,
    key character varying(255) NOT NULL,
    value text NOT NULL
);
CREATE TABLE public.directus_users (
    id uuid NOT NULL,
    first_name character varying(50),
    last_name character varying(50),
    email character varying(128),
    password character varying(255),
    location character varying(255),
    title character varying(50),
    description text,
    tags json,
    avatar uuid,
    language character varying(255) DEFAULT NULL::character varying,
    tfa_secret character varying(255),
    status character varying(16) DEFAULT 'active'::character varying NOT NULL,
    role uuid,
    token character varying(255),
    last_access timestamp with time zone,
    last_page character varying(255),
    provider character varying(128) DEFAULT 'default'::character varying NOT NULL,
    external_identifier character varying(255),
    auth_data json,
    email_notifications boolean DEFAULT true,
    appearance character varying(255),
    theme_dark character varying(255),
    theme_light character varying(255),
    theme_light_overrides json,
    theme_dark_overrides json
);
CREATE TABLE public.directus_versions (
    id uuid NOT NULL,
    key character varying(64) NOT NULL,
    name character varying(255),
    collection character varying(64) NOT NULL,
    item character varying(255) NOT NULL,
    hash character varying(255),
    date_created timestamp with time zone DEFAULT CURRENT_TIMESTAMP,
    date_updated timestamp with time zone DEFAULT CURRENT_TIMESTAMP,
    user_created uuid,
    user_updated uuid
);
CREATE TABLE public.directus_webhooks (
    id integer NOT NULL,
    name character varying(255) NOT NULL,
    method character varying(10) DEFAULT 'POST'::character varying NOT NULL,
    url character varying(255) NOT NULL,
    status character varying(10) DEFAULT 'active'::character varying NOT NULL,
    data boolean DEFAULT true NOT NULL,
    actions character varying(100) NOT NULL,
    collections character varying(255) NOT NULL,
    headers json,
    was_active_before_deprecation boolean DEFAULT false NOT NULL,
    migrated_flow uuid
);
CREATE SEQUENCE public.directus_webhooks_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.directus_webhooks_id_seq OWNED BY public.directus_webhooks.id;
ALTER TABLE ONLY public.article ALTER COLUMN id SET DEFAULT nextval('public.article_id_seq'::regclass);
ALTER TABLE ONLY public.directus_activity ALTER COLUMN id SET DEFAULT nextval('public.directus_activity_id_seq'::regclass);
ALTER TABLE ONLY public.directus_fields ALTER COLUMN id SET DEFAULT nextval('public.directus_fields_id_seq'::regclass);
ALTER TABLE ONLY public.directus_notifications ALTER COLUMN id SET DEFAULT nextval('public.directus_notifications_id_seq'::regclass);
ALTER TABLE ONLY public.directus_permissions ALTER COLUMN id SET DEFAULT nextval('public.directus_permissions_id_seq'::regclass);
ALTER TABLE ONLY public.directus_presets ALTER COLUMN id SET DEFAULT nextval('public.directus_presets_id_seq'::regclass);
ALTER TABLE ONLY public.directus_relations ALTER COLUMN id SET DEFAULT nextval('public.directus_relations_id_seq'::regclass);
ALTER TABLE ONLY public.directus_revisions ALTER COLUMN id SET DEFAULT nextval('public.directus_revisions_id_seq'::regclass);
ALTER TABLE ONLY public.directus_settings ALTER COLUMN id SET DEFAULT nextval('public.directus_settings_id_seq'::regclass);
ALTER TABLE ONLY public.directus_webhooks ALTER COLUMN id SET DEFAULT nextval('public.directus_webhooks_id_seq'::regclass);
INSERT INTO public.article VALUES
	(1, 'ea9f1298-56d0-4daa-a0b7-f6266d4081ad', '<img src="http://127.0.0.1:56729/assets/d493c024-d3f3-40c1-82b7-80ce5e6f83ec?width=10">', 'archived');
INSERT INTO public.directus_access VALUES
	('0bded46a-02eb-4b2d-a5df-95f8352fefb1', NULL, NULL, 'abf8a154-5b1c-4a46-ac9c-7300570f4f17', 1),
	('cf848479-74d8-4ffd-8093-025ac4acbe48', 'd1da8229-ef14-4cbc-bdb8-65fe90d30130', NULL, '70db34cd-a44d-4c66-bfeb-da47eb2430cd', NULL);
INSERT INTO public.directus_activity VALUES
	(1, 'login', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:19:56.056+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_users', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', NULL, NULL),
	(2, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:19:57.952+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '31637210-a13c-411b-b89a-a527b21b9831', NULL, NULL),
	(3, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:19:58.599+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '9debff3c-f762-4ff1-921f-26d5a11491a6', NULL, NULL),
	(4, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:19:58.995+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '551e4397-de71-4fd4-ba23-b3ad27a8ed61', NULL, NULL),
	(5, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:19:59.394+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '8d622b03-317b-4677-8cf5-b671c5d617b5', NULL, NULL),
	(6, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:19:59.796+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', 'ea9f1298-56d0-4daa-a0b7-f6266d4081ad', NULL, NULL),
	(7, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:00.179+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', 'd493c024-d3f3-40c1-82b7-80ce5e6f83ec', NULL, NULL),
	(8, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:00.515+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', 'a00de9df-e2f0-45a7-9265-c35831ea3fe2', NULL, NULL),
	(9, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:00.841+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '495e3604-c8a1-49eb-aec7-95dfaef3ab9f', NULL, NULL),
	(10, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:01.207+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '7f03ba5f-b142-4948-b039-80014719bfb3', NULL, NULL),
	(11, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:01.664+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '6d13a88e-fc2d-41be-8eaa-d4e845be05fa', NULL, NULL),
	(12, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:02.025+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', 'be5bf50c-3248-4d0a-a9ee-fd1c380f50b8', NULL, NULL),
	(13, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:02.389+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '127648c2-47ee-4e3a-89dd-35601a697f7e', NULL, NULL),
	(14, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:02.765+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', 'b77eea47-8ce0-4a16-ab43-5722c1739942', NULL, NULL),
	(15, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:03.137+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', 'b1189e73-a707-4099-98f4-2877984437ee', NULL, NULL),
	(16, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:03.457+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', 'f7b28baf-3c98-4a48-b3af-c71dfcfa197c', NULL, NULL),
	(17, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:03.72+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', 'ed7fa441-8c64-49ed-ad3d-326ed186c928', NULL, NULL),
	(18, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:03.992+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '820d9264-68b0-46dd-992f-8b1ef96f1c36', NULL, NULL),
	(19, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:04.312+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', 'a7c5f136-5acb-4f39-8cee-74aabfbf2105', NULL, NULL),
	(20, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:38.156+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '155f0443-efcb-44f1-b6f7-d0dd802edbb9', NULL, NULL),
	(21, 'update', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:41.792+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '31637210-a13c-411b-b89a-a527b21b9831', NULL, NULL),
	(22, 'update', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:43.254+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '31637210-a13c-411b-b89a-a527b21b9831', NULL, NULL),
	(23, 'delete', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:43.554+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '551e4397-de71-4fd4-ba23-b3ad27a8ed61', NULL, NULL),
	(24, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:43.818+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_fields', '1', NULL, NULL),
	(25, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:43.879+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_fields', '2', NULL, NULL),
	(26, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:44.007+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_fields', '3', NULL, NULL),
	(27, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:44.069+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_collections', 'article', NULL, NULL),
	(28, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:45.397+00', '127.0.0.1', 'Python-urllib/3.11', 'article', '1', NULL, NULL),
	(29, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:46.641+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '61f08623-f8fe-4ca0-9154-2b48886b4268', NULL, NULL),
	(30, 'update', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:47.02+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '61f08623-f8fe-4ca0-9154-2b48886b4268', NULL, NULL),
	(31, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:49.227+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', 'f613590d-b1bb-4e11-b2d0-cda3c0da8920', NULL, NULL),
	(32, 'update', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:49.343+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', 'f613590d-b1bb-4e11-b2d0-cda3c0da8920', NULL, NULL),
	(33, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:50.262+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '7763cfcc-201f-42b2-b4d1-c2c4229a6399', NULL, NULL),
	(34, 'update', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:50.407+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '7763cfcc-201f-42b2-b4d1-c2c4229a6399', NULL, NULL),
	(35, 'create', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:51.205+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '97eeddc7-6649-4023-b202-91553d687739', NULL, NULL),
	(36, 'update', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:51.345+00', '127.0.0.1', 'Python-urllib/3.11', 'directus_files', '97eeddc7-6649-4023-b202-91553d687739', NULL, NULL);
INSERT INTO public.directus_collections VALUES
	('article', NULL, NULL, NULL, false, false, NULL, NULL, true, NULL, NULL, NULL, 'all', NULL, NULL, NULL, NULL, 'open', NULL, false);
INSERT INTO public.directus_fields VALUES
	(1, 'article', 'id', NULL, NULL, NULL, NULL, NULL, false, true, 1, 'full', NULL, NULL, NULL, false, NULL, NULL, NULL),
	(2, 'article', 'cover', 'file', 'file-image', NULL, NULL, NULL, false, false, 2, 'full', NULL, NULL, NULL, false, NULL, NULL, NULL),
	(3, 'article', 'body', NULL, 'input-rich-text-html', NULL, NULL, NULL, false, false, 3, 'full', NULL, NULL, NULL, false, NULL, NULL, NULL);
INSERT INTO public.directus_files VALUES
	('9debff3c-f762-4ff1-921f-26d5a11491a6', 's3', '9debff3c-f762-4ff1-921f-26d5a11491a6.png', 'picture 1.png', 'Picture 1', 'image/png', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:19:58.556+00', NULL, '2025-06-02 15:19:58.814+00', NULL, 101, 40, 30, NULL, NULL, NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, '2025-06-02 15:19:58.813+00'),
	('7763cfcc-201f-42b2-b4d1-c2c4229a6399', 's3', '7763cfcc-201f-42b2-b4d1-c2c4229a6399.bin', 'half1.bin', 'Half1.bin', 'application/octet-stream', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:50.244+00', NULL, '2025-06-02 15:20:51.086+00', NULL, 12000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'e1b18026695ea1b774050e92d1f25b55', '{"id":"e1b18026695ea1b774050e92d1f25b55","size":12000000,"offset":5242880,"metadata":{"filename_download":"half1.bin","type":"application/octet-stream","storage":"s3","title":"Half1.bin","id":"7763cfcc-201f-42b2-b4d1-c2c4229a6399","upload-id":"E9G5cPQedFXbZNosCfbuGTTHWI8xNDf2j2cboazL9WMWCxti9T4cUw"},"creation_date":"2026-11-30T15:20:50.207Z"}', NULL),
	('61f08623-f8fe-4ca0-9154-2b48886b4268', 's3', '61f08623-f8fe-4ca0-9154-2b48886b4268.bin', 'whole.bin', 'Whole.bin', 'application/octet-stream', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:46.624+00', NULL, '2025-06-02 15:20:49.159+00', NULL, 7000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	('ea9f1298-56d0-4daa-a0b7-f6266d4081ad', 's3', 'ea9f1298-56d0-4daa-a0b7-f6266d4081ad.png', 'picture 4.png', 'Picture 4', 'image/png', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:19:59.785+00', NULL, '2025-06-02 15:20:00.024+00', NULL, 101, 40, 30, NULL, NULL, NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, '2025-06-02 15:20:00.011+00'),
	('d493c024-d3f3-40c1-82b7-80ce5e6f83ec', 's3', 'd493c024-d3f3-40c1-82b7-80ce5e6f83ec.png', 'picture 5.png', 'Picture 5', 'image/png', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:00.135+00', NULL, '2025-06-02 15:20:00.337+00', NULL, 101, 40, 30, NULL, NULL, NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, '2025-06-02 15:20:00.318+00'),
	('a00de9df-e2f0-45a7-9265-c35831ea3fe2', 's3', 'a00de9df-e2f0-45a7-9265-c35831ea3fe2.png', 'picture 6.png', 'Picture 6', 'image/png', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:00.494+00', NULL, '2025-06-02 15:20:00.701+00', NULL, 101, 40, 30, NULL, NULL, NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, '2025-06-02 15:20:00.698+00'),
	('495e3604-c8a1-49eb-aec7-95dfaef3ab9f', 's3', '495e3604-c8a1-49eb-aec7-95dfaef3ab9f.png', 'picture 7.png', 'Picture 7', 'image/png', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:00.824+00', NULL, '2025-06-02 15:20:01.061+00', NULL, 101, 40, 30, NULL, NULL, NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, '2025-06-02 15:20:01.059+00'),
	('7f03ba5f-b142-4948-b039-80014719bfb3', 's3', '7f03ba5f-b142-4948-b039-80014719bfb3.png', 'picture 8.png', 'Picture 8', 'image/png', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:01.199+00', NULL, '2025-06-02 15:20:01.453+00', NULL, 101, 40, 30, NULL, NULL, NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, '2025-06-02 15:20:01.446+00'),
	('6d13a88e-fc2d-41be-8eaa-d4e845be05fa', 's3', '6d13a88e-fc2d-41be-8eaa-d4e845be05fa.png', 'picture 9.png', 'Picture 9', 'image/png', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:01.648+00', NULL, '2025-06-02 15:20:01.873+00', NULL, 100, 40, 30, NULL, NULL, NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, '2025-06-02 15:20:01.871+00'),
	('be5bf50c-3248-4d0a-a9ee-fd1c380f50b8', 's3', 'be5bf50c-3248-4d0a-a9ee-fd1c380f50b8.png', 'picture 10.png', 'Picture 10', 'image/png', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:02.001+00', NULL, '2025-06-02 15:20:02.277+00', NULL, 100, 40, 30, NULL, NULL, NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, '2025-06-02 15:20:02.259+00'),
	('127648c2-47ee-4e3a-89dd-35601a697f7e', 's3', '127648c2-47ee-4e3a-89dd-35601a697f7e.png', 'picture 11.png', 'Picture 11', 'image/png', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:02.383+00', NULL, '2025-06-02 15:20:02.647+00', NULL, 100, 40, 30, NULL, NULL, NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, '2025-06-02 15:20:02.619+00'),
	('b77eea47-8ce0-4a16-ab43-5722c1739942', 's3', 'b77eea47-8ce0-4a16-ab43-5722c1739942.png', 'picture 12.png', 'Picture 12', 'image/png', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:02.751+00', NULL, '2025-06-02 15:20:03.028+00', NULL, 100, 40, 30, NULL, NULL, NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, '2025-06-02 15:20:03.027+00'),
	('b1189e73-a707-4099-98f4-2877984437ee', 's3', 'b1189e73-a707-4099-98f4-2877984437ee.png', 'picture 13.png', 'Picture 13', 'image/png', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:03.127+00', NULL, '2025-06-02 15:20:03.335+00', NULL, 100, 40, 30, NULL, NULL, NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, '2025-06-02 15:20:03.323+00'),
	('ed7fa441-8c64-49ed-ad3d-326ed186c928', 's3', 'ed7fa441-8c64-49ed-ad3d-326ed186c928.pdf', 'paper1.pdf', 'Paper1', 'application/pdf', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:03.703+00', NULL, '2025-06-02 15:20:03.876+00', NULL, 55, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2025-06-02 15:20:03.866+00'),
	('820d9264-68b0-46dd-992f-8b1ef96f1c36', 's3', '820d9264-68b0-46dd-992f-8b1ef96f1c36.pdf', 'paper2.pdf', 'Paper2', 'application/pdf', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:03.978+00', NULL, '2025-06-02 15:20:04.171+00', NULL, 55, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2025-06-02 15:20:04.167+00'),
	('a7c5f136-5acb-4f39-8cee-74aabfbf2105', 's3', 'a7c5f136-5acb-4f39-8cee-74aabfbf2105.pdf', 'paper3.pdf', 'Paper3', 'application/pdf', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:04.287+00', NULL, '2025-06-02 15:20:04.42+00', NULL, 55, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2025-06-02 15:20:04.419+00'),
	('155f0443-efcb-44f1-b6f7-d0dd802edbb9', 's3', 'logo-main.png', 'own.png', 'Own', 'image/png', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:38.126+00', NULL, '2025-06-02 15:20:38.624+00', NULL, 101, 40, 30, NULL, NULL, NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, '2025-06-02 15:20:38.608+00'),
	('f613590d-b1bb-4e11-b2d0-cda3c0da8920', 's3', 'f613590d-b1bb-4e11-b2d0-cda3c0da8920.bin', 'half0.bin', 'Half0.bin', 'application/octet-stream', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:49.223+00', NULL, '2025-06-02 15:20:50.091+00', NULL, 12000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '432dc259c2e66f66537899d2667db88c', '{"id":"432dc259c2e66f66537899d2667db88c","size":12000000,"offset":5242880,"metadata":{"filename_download":"half0.bin","type":"application/octet-stream","storage":"s3","title":"Half0.bin","id":"f613590d-b1bb-4e11-b2d0-cda3c0da8920","upload-id":"cFz2FMDlMbkw9VBoE5I7lUcDW0Z0ZYkMPEWVYUE99jVmMSukMmdqYnng"},"creation_date":"2026-11-30T15:20:49.208Z"}', NULL),
	('31637210-a13c-411b-b89a-a527b21b9831', 's3', '31637210-a13c-411b-b89a-a527b21b9831.png', 'new.png', 'Picture 0', 'image/png', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:19:57.89+00', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:43.207+00', NULL, 100, 40, 30, NULL, NULL, NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, '2025-06-02 15:20:43.019+00'),
	('97eeddc7-6649-4023-b202-91553d687739', 's3', '97eeddc7-6649-4023-b202-91553d687739.bin', 'half2.bin', 'Half2.bin', 'application/octet-stream', NULL, 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:51.193+00', 'c006c490-1660-4fca-bbeb-bb9ade1aa97a', '2025-06-02 15:20:51.294+00', NULL, 12000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '192b3513af8fa936516817ea3e9b958f', '{"id":"192b3513af8fa936516817ea3e9b958f","size":12000000,"offset":0,"metadata":{"filename_download":"half2.bin","type":"application/octet-stream","storage":"s3","title":"Half2.bin","id":"97eeddc7-6649-4023-b202-91553d687739","upload-id":"qJSliWb5JahXP6BpTG1a068cyQ6d01aMV9dlfUilP0a7mPTJut2p0hypw"},"creation_date":"2026-11-30T15:20:51.168Z"}', NULL);
INSERT INTO public.directus_policies VALUES
	('abf8a154-5b1c-4a46-ac9c-7300570f4f17', '$t:public_label', 'public', '$t:public_description', NULL, false, false, false),
	('70db34cd-a44d-4c66-bfeb-da47eb2430cd', 'Administrator', 'verified', '$t:admin_description', NULL, false, true, true);
INSERT INTO public.directus_relations VALUES
	(1, 'article', 'cover', 'directus_files', NULL, NULL, NULL, NULL, NULL, 'nullify');
INSERT INTO public.directus_revisions VALUES
	(1, 2, 'directus_files', '31637210-a13c-411b-b89a-a527b21b9831', '{"title":"Picture 0","filename_download":"picture 0.png","type":"image/png","storage":"s3"}', '{"title":"Picture 0","filename_download":"picture 0.png","type":"image/png","storage":"s3"}', NULL, NULL),
	(2, 3, 'directus_files', '9debff3c-f762-4ff1-921f-26d5a11491a6', '{"title":"Picture 1","filename_download":"picture 1.png","type":"image/png","storage":"s3"}', '{"title":"Picture 1","filename_download":"picture 1.png","type":"image/png","storage":"s3"}', NULL, NULL),
	(3, 4, 'directus_files', '551e4397-de71-4fd4-ba23-b3ad27a8ed61', '{"title":"Picture 2","filename_download":"picture 2.png","type":"image/png","storage":"s3"}', '{"title":"Picture 2","filename_download":"picture 2.png","type":"image/png","storage":"s3"}', NULL, NULL),
	(4, 5, 'directus_files', '8d622b03-317b-4677-8cf5-b671c5d617b5', '{"title":"Picture 3","filename_download":"picture 3.png","type":"image/png","storage":"s3"}', '{"title":"Picture 3","filename_download":"picture 3.png","type":"image/png","storage":"s3"}', NULL, NULL),
	(5, 6, 'directus_files', 'ea9f1298-56d0-4daa-a0b7-f6266d4081ad', '{"title":"Picture 4","filename_download":"picture 4.png","type":"image/png","storage":"s3"}', '{"title":"Picture 4","filename_download":"picture 4.png","type":"image/png","storage":"s3"}', NULL, NULL),
	(6, 7, 'directus_files', 'd493c024-d3f3-40c1-82b7-80ce5e6f83ec', '{"title":"Picture 5","filename_download":"picture 5.png","type":"image/png","storage":"s3"}', '{"title":"Picture 5","filename_download":"picture 5.png","type":"image/png","storage":"s3"}', NULL, NULL),
	(7, 8, 'directus_files', 'a00de9df-e2f0-45a7-9265-c35831ea3fe2', '{"title":"Picture 6","filename_download":"picture 6.png","type":"image/png","storage":"s3"}', '{"title":"Picture 6","filename_download":"picture 6.png","type":"image/png","storage":"s3"}', NULL, NULL),
	(8, 9, 'directus_files', '495e3604-c8a1-49eb-aec7-95dfaef3ab9f', '{"title":"Picture 7","filename_download":"picture 7.png","type":"image/png","storage":"s3"}', '{"title":"Picture 7","filename_download":"picture 7.png","type":"image/png","storage":"s3"}', NULL, NULL),
	(9, 10, 'directus_files', '7f03ba5f-b142-4948-b039-80014719bfb3', '{"title":"Picture 8","filename_download":"picture 8.png","type":"image/png","storage":"s3"}', '{"title":"Picture 8","filename_download":"picture 8.png","type":"image/png","storage":"s3"}', NULL, NULL),
	(10, 11, 'directus_files', '6d13a88e-fc2d-41be-8eaa-d4e845be05fa', '{"title":"Picture 9","filename_download":"picture 9.png","type":"image/png","storage":"s3"}', '{"title":"Picture 9","filename_download":"picture 9.png","type":"image/png","storage":"s3"}', NULL, NULL),
	(11, 12, 'directus_files', 'be5bf50c-3248-4d0a-a9ee-fd1c380f50b8', '{"title":"Picture 10","filename_download":"picture 10.png","type":"image/png","storage":"s3"}', '{"title":"Picture 10","filename_download":"picture 10.png","type":"image/png","storage":"s3"}', NULL, NULL),
	(12, 13, 'directus_files', '127648c2-47ee-4e3a-89dd-35601a697f7e', '{"title":"Picture 11","filename_download":"picture 11.png","type":"image/png","storage":"s3"}', '{"title":"Picture 11","filename_download":"picture 11.png","type":"image/png","storage":"s3"}', NULL, NULL),
	(13, 14, 'directus_files', 'b77eea47-8ce0-4a16-ab43-5722c1739942', '{"title":"Picture 12","filename_download":"picture 12.png","type":"image/png","storage":"s3"}', '{"title":"Picture 12","filename_download":"picture 12.png","type":"image/png","storage":"s3"}', NULL, NULL),
	(14, 15, 'directus_files', 'b1189e73-a707-4099-98f4-2877984437ee', '{"title":"Picture 13","filename_download":"picture 13.png","type":"image/png","storage":"s3"}', '{"title":"Picture 13","filename_download":"picture 13.png","type":"image/png","storage":"s3"}', NULL, NULL),
	(15, 16, 'directus_files', 'f7b28baf-3c98-4a48-b3af-c71dfcfa197c', '{"title":"Paper0","filename_download":"paper0.pdf","type":"application/pdf","storage":"s3"}', '{"title":"Paper0","filename_download":"paper0.pdf","type":"application/pdf","storage":"s3"}', NULL, NULL),
	(16, 17, 'directus_files', 'ed7fa441-8c64-49ed-ad3d-326ed186c928', '{"title":"Paper1","filename_download":"paper1.pdf","type":"application/pdf","storage":"s3"}', '{"title":"Paper1","filename_download":"paper1.pdf","type":"application/pdf","storage":"s3"}', NULL, NULL),
	(17, 18, 'directus_files', '820d9264-68b0-46dd-992f-8b1ef96f1c36', '{"title":"Paper2","filename_download":"paper2.pdf","type":"application/pdf","storage":"s3"}', '{"title":"Paper2","filename_download":"paper2.pdf","type":"application/pdf","storage":"s3"}', NULL, NULL),
	(18, 19, 'directus_files', 'a7c5f136-5acb-4f39-8cee-74aabfbf2105', '{"title":"Paper3","filename_download":"paper3.pdf","type":"application/pdf","storage":"s3"}', '{"title":"Paper3","filename_download":"paper3.pdf","type":"application/pdf","storage":"s3"}', NULL, NULL),
	(19, 20, 'directus_files', '155f0443-efcb-44f1-b6f7-d0dd802edbb9', '{"filename_disk":"logo-main.png","title":"Own","filename_download":"own.png","type":"image/png","storage":"s3"}', '{"filename_disk":"logo-main.png","title":"Own","filename_download":"own.png","type":"image/png","storage":"s3"}', NULL, NULL),
	(20, 21, 'directus_files', '31637210-a13c-411b-b89a-a527b21b9831', '{"id":"31637210-a13c-411b-b89a-a527b21b9831","storage":"s3","filename_disk":"31637210-a13c-411b-b89a-a527b21b9831.png","filename_download":"new.png","title":"Picture 0","type":"image/png","folder":null,"uploaded_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","created_on":"2026-11-30T15:19:57.890Z","modified_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","modified_on":"2026-11-30T15:20:41.753Z","charset":null,"filesize":"98","width":40,"height":30,"duration":null,"embed":null,"description":null,"location":null,"tags":null,"metadata":{},"focal_point_x":null,"focal_point_y":null,"tus_id":null,"tus_data":null,"uploaded_on":"2026-11-30T15:19:58.336Z"}', '{"storage":"s3","filename_disk":"31637210-a13c-411b-b89a-a527b21b9831.png","filename_download":"new.png","title":"Picture 0","type":"image/png","folder":null,"description":null,"metadata":{},"modified_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","modified_on":"2026-11-30T15:20:41.753Z"}', NULL, NULL),
	(21, 22, 'directus_files', '31637210-a13c-411b-b89a-a527b21b9831', '{"id":"31637210-a13c-411b-b89a-a527b21b9831","storage":"s3","filename_disk":"31637210-a13c-411b-b89a-a527b21b9831.png","filename_download":"new.png","title":"Picture 0","type":"image/png","folder":null,"uploaded_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","created_on":"2026-11-30T15:19:57.890Z","modified_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","modified_on":"2026-11-30T15:20:43.207Z","charset":null,"filesize":"100","width":40,"height":30,"duration":null,"embed":null,"description":null,"location":null,"tags":null,"metadata":{},"focal_point_x":null,"focal_point_y":null,"tus_id":null,"tus_data":null,"uploaded_on":"2026-11-30T15:20:43.019Z"}', '{"modified_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","modified_on":"2026-11-30T15:20:43.207Z"}', NULL, NULL),
	(22, 24, 'directus_fields', '1', '{"sort":1,"hidden":true,"field":"id","collection":"article"}', '{"sort":1,"hidden":true,"field":"id","collection":"article"}', NULL, NULL),
	(23, 25, 'directus_fields', '2', '{"sort":2,"interface":"file-image","special":["file"],"field":"cover","collection":"article"}', '{"sort":2,"interface":"file-image","special":["file"],"field":"cover","collection":"article"}', NULL, NULL),
	(24, 26, 'directus_fields', '3', '{"sort":3,"interface":"input-rich-text-html","field":"body","collection":"article"}', '{"sort":3,"interface":"input-rich-text-html","field":"body","collection":"article"}', NULL, NULL),
	(25, 27, 'directus_collections', 'article', '{"collection":"article"}', '{"collection":"article"}', NULL, NULL),
	(26, 28, 'article', '1', '{"cover":"ea9f1298-56d0-4daa-a0b7-f6266d4081ad","body":"<img src=\"http://127.0.0.1:56729/assets/d493c024-d3f3-40c1-82b7-80ce5e6f83ec?width=10\">","status":"archived"}', '{"cover":"ea9f1298-56d0-4daa-a0b7-f6266d4081ad","body":"<img src=\"http://127.0.0.1:56729/assets/d493c024-d3f3-40c1-82b7-80ce5e6f83ec?width=10\">","status":"archived"}', NULL, NULL),
	(27, 29, 'directus_files', '61f08623-f8fe-4ca0-9154-2b48886b4268', '{"filename_download":"whole.bin","type":"application/octet-stream","storage":"s3","title":"Whole.bin","tus_id":"55d020df3030801a2407ec096d75e558","tus_data":{"id":"55d020df3030801a2407ec096d75e558","size":7000000,"offset":0,"metadata":{"filename_download":"whole.bin","type":"application/octet-stream","storage":"s3","title":"Whole.bin"},"creation_date":"2026-11-30T15:20:46.515Z"},"filesize":7000000}', '{"filename_download":"whole.bin","type":"application/octet-stream","storage":"s3","title":"Whole.bin","tus_id":"55d020df3030801a2407ec096d75e558","tus_data":{"id":"55d020df3030801a2407ec096d75e558","size":7000000,"offset":0,"metadata":{"filename_download":"whole.bin","type":"application/octet-stream","storage":"s3","title":"Whole.bin"},"creation_date":"2026-11-30T15:20:46.515Z"},"filesize":7000000}', NULL, NULL),
	(28, 30, 'directus_files', '61f08623-f8fe-4ca0-9154-2b48886b4268', '{"id":"61f08623-f8fe-4ca0-9154-2b48886b4268","storage":"s3","filename_disk":"61f08623-f8fe-4ca0-9154-2b48886b4268.bin","filename_download":"whole.bin","title":"Whole.bin","type":"application/octet-stream","folder":null,"uploaded_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","created_on":"2026-11-30T15:20:46.624Z","modified_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","modified_on":"2026-11-30T15:20:47.007Z","charset":null,"filesize":"7000000","width":null,"height":null,"duration":null,"embed":null,"description":null,"location":null,"tags":null,"metadata":null,"focal_point_x":null,"focal_point_y":null,"tus_id":"55d020df3030801a2407ec096d75e558","tus_data":{"id":"55d020df3030801a2407ec096d75e558","size":7000000,"offset":0,"metadata":{"filename_download":"whole.bin","type":"application/octet-stream","storage":"s3","title":"Whole.bin","id":"61f08623-f8fe-4ca0-9154-2b48886b4268","upload-id":"Huz3Vj3uqDY9NBZ9EQcFy1g89Vfw4SX01H2CyooezzVVuFoZVb5BQ"},"creation_date":"2026-11-30T15:20:46.515Z"},"uploaded_on":null}', '{"storage":"s3","filename_disk":"61f08623-f8fe-4ca0-9154-2b48886b4268.bin","filename_download":"whole.bin","title":"Whole.bin","type":"application/octet-stream","filesize":7000000,"tus_id":"55d020df3030801a2407ec096d75e558","tus_data":{"id":"55d020df3030801a2407ec096d75e558","size":7000000,"offset":0,"metadata":{"filename_download":"whole.bin","type":"application/octet-stream","storage":"s3","title":"Whole.bin","id":"61f08623-f8fe-4ca0-9154-2b48886b4268","upload-id":"Huz3Vj3uqDY9NBZ9EQcFy1g89Vfw4SX01H2CyooezzVVuFoZVb5BQ"},"creation_date":"2026-11-30T15:20:46.515Z"},"modified_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","modified_on":"2026-11-30T15:20:47.007Z"}', NULL, NULL),
	(29, 31, 'directus_files', 'f613590d-b1bb-4e11-b2d0-cda3c0da8920', '{"filename_download":"half0.bin","type":"application/octet-stream","storage":"s3","title":"Half0.bin","tus_id":"432dc259c2e66f66537899d2667db88c","tus_data":{"id":"432dc259c2e66f66537899d2667db88c","size":12000000,"offset":0,"metadata":{"filename_download":"half0.bin","type":"application/octet-stream","storage":"s3","title":"Half0.bin"},"creation_date":"2026-11-30T15:20:49.208Z"},"filesize":12000000}', '{"filename_download":"half0.bin","type":"application/octet-stream","storage":"s3","title":"Half0.bin","tus_id":"432dc259c2e66f66537899d2667db88c","tus_data":{"id":"432dc259c2e66f66537899d2667db88c","size":12000000,"offset":0,"metadata":{"filename_download":"half0.bin","type":"application/octet-stream","storage":"s3","title":"Half0.bin"},"creation_date":"2026-11-30T15:20:49.208Z"},"filesize":12000000}', NULL, NULL),
	(30, 32, 'directus_files', 'f613590d-b1bb-4e11-b2d0-cda3c0da8920', '{"id":"f613590d-b1bb-4e11-b2d0-cda3c0da8920","storage":"s3","filename_disk":"f613590d-b1bb-4e11-b2d0-cda3c0da8920.bin","filename_download":"half0.bin","title":"Half0.bin","type":"application/octet-stream","folder":null,"uploaded_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","created_on":"2026-11-30T15:20:49.223Z","modified_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","modified_on":"2026-11-30T15:20:49.321Z","charset":null,"filesize":"12000000","width":null,"height":null,"duration":null,"embed":null,"description":null,"location":null,"tags":null,"metadata":null,"focal_point_x":null,"focal_point_y":null,"tus_id":"432dc259c2e66f66537899d2667db88c","tus_data":{"id":"432dc259c2e66f66537899d2667db88c","size":12000000,"offset":0,"metadata":{"filename_download":"half0.bin","type":"application/octet-stream","storage":"s3","title":"Half0.bin","id":"f613590d-b1bb-4e11-b2d0-cda3c0da8920","upload-id":"cFz2FMDlMbkw9VBoE5I7lUcDW0Z0ZYkMPEWVYUE99jVmMSukMmdqYnng"},"creation_date":"2026-11-30T15:20:49.208Z"},"uploaded_on":null}', '{"storage":"s3","filename_disk":"f613590d-b1bb-4e11-b2d0-cda3c0da8920.bin","filename_download":"half0.bin","title":"Half0.bin","type":"application/octet-stream","filesize":12000000,"tus_id":"432dc259c2e66f66537899d2667db88c","tus_data":{"id":"432dc259c2e66f66537899d2667db88c","size":12000000,"offset":0,"metadata":{"filename_download":"half0.bin","type":"application/octet-stream","storage":"s3","title":"Half0.bin","id":"f613590d-b1bb-4e11-b2d0-cda3c0da8920","upload-id":"cFz2FMDlMbkw9VBoE5I7lUcDW0Z0ZYkMPEWVYUE99jVmMSukMmdqYnng"},"creation_date":"2026-11-30T15:20:49.208Z"},"modified_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","modified_on":"2026-11-30T15:20:49.321Z"}', NULL, NULL),
	(31, 33, 'directus_files', '7763cfcc-201f-42b2-b4d1-c2c4229a6399', '{"filename_download":"half1.bin","type":"application/octet-stream","storage":"s3","title":"Half1.bin","tus_id":"e1b18026695ea1b774050e92d1f25b55","tus_data":{"id":"e1b18026695ea1b774050e92d1f25b55","size":12000000,"offset":0,"metadata":{"filename_download":"half1.bin","type":"application/octet-stream","storage":"s3","title":"Half1.bin"},"creation_date":"2026-11-30T15:20:50.207Z"},"filesize":12000000}', '{"filename_download":"half1.bin","type":"application/octet-stream","storage":"s3","title":"Half1.bin","tus_id":"e1b18026695ea1b774050e92d1f25b55","tus_data":{"id":"e1b18026695ea1b774050e92d1f25b55","size":12000000,"offset":0,"metadata":{"filename_download":"half1.bin","type":"application/octet-stream","storage":"s3","title":"Half1.bin"},"creation_date":"2026-11-30T15:20:50.207Z"},"filesize":12000000}', NULL, NULL),
	(32, 34, 'directus_files', '7763cfcc-201f-42b2-b4d1-c2c4229a6399', '{"id":"7763cfcc-201f-42b2-b4d1-c2c4229a6399","storage":"s3","filename_disk":"7763cfcc-201f-42b2-b4d1-c2c4229a6399.bin","filename_download":"half1.bin","title":"Half1.bin","type":"application/octet-stream","folder":null,"uploaded_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","created_on":"2026-11-30T15:20:50.244Z","modified_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","modified_on":"2026-11-30T15:20:50.395Z","charset":null,"filesize":"12000000","width":null,"height":null,"duration":null,"embed":null,"description":null,"location":null,"tags":null,"metadata":null,"focal_point_x":null,"focal_point_y":null,"tus_id":"e1b18026695ea1b774050e92d1f25b55","tus_data":{"id":"e1b18026695ea1b774050e92d1f25b55","size":12000000,"offset":0,"metadata":{"filename_download":"half1.bin","type":"application/octet-stream","storage":"s3","title":"Half1.bin","id":"7763cfcc-201f-42b2-b4d1-c2c4229a6399","upload-id":"E9G5cPQedFXbZNosCfbuGTTHWI8xNDf2j2cboazL9WMWCxti9T4cUw"},"creation_date":"2026-11-30T15:20:50.207Z"},"uploaded_on":null}', '{"storage":"s3","filename_disk":"7763cfcc-201f-42b2-b4d1-c2c4229a6399.bin","filename_download":"half1.bin","title":"Half1.bin","type":"application/octet-stream","filesize":12000000,"tus_id":"e1b18026695ea1b774050e92d1f25b55","tus_data":{"id":"e1b18026695ea1b774050e92d1f25b55","size":12000000,"offset":0,"metadata":{"filename_download":"half1.bin","type":"application/octet-stream","storage":"s3","title":"Half1.bin","id":"7763cfcc-201f-42b2-b4d1-c2c4229a6399","upload-id":"E9G5cPQedFXbZNosCfbuGTTHWI8xNDf2j2cboazL9WMWCxti9T4cUw"},"creation_date":"2026-11-30T15:20:50.207Z"},"modified_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","modified_on":"2026-11-30T15:20:50.395Z"}', NULL, NULL),
	(33, 35, 'directus_files', '97eeddc7-6649-4023-b202-91553d687739', '{"filename_download":"half2.bin","type":"application/octet-stream","storage":"s3","title":"Half2.bin","tus_id":"192b3513af8fa936516817ea3e9b958f","tus_data":{"id":"192b3513af8fa936516817ea3e9b958f","size":12000000,"offset":0,"metadata":{"filename_download":"half2.bin","type":"application/octet-stream","storage":"s3","title":"Half2.bin"},"creation_date":"2026-11-30T15:20:51.168Z"},"filesize":12000000}', '{"filename_download":"half2.bin","type":"application/octet-stream","storage":"s3","title":"Half2.bin","tus_id":"192b3513af8fa936516817ea3e9b958f","tus_data":{"id":"192b3513af8fa936516817ea3e9b958f","size":12000000,"offset":0,"metadata":{"filename_download":"half2.bin","type":"application/octet-stream","storage":"s3","title":"Half2.bin"},"creation_date":"2026-11-30T15:20:51.168Z"},"filesize":12000000}', NULL, NULL),
	(34, 36, 'directus_files', '97eeddc7-6649-4023-b202-91553d687739', '{"id":"97eeddc7-6649-4023-b202-91553d687739","storage":"s3","filename_disk":"97eeddc7-6649-4023-b202-91553d687739.bin","filename_download":"half2.bin","title":"Half2.bin","type":"application/octet-stream","folder":null,"uploaded_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","created_on":"2026-11-30T15:20:51.193Z","modified_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","modified_on":"2026-11-30T15:20:51.294Z","charset":null,"filesize":"12000000","width":null,"height":null,"duration":null,"embed":null,"description":null,"location":null,"tags":null,"metadata":null,"focal_point_x":null,"focal_point_y":null,"tus_id":"192b3513af8fa936516817ea3e9b958f","tus_data":{"id":"192b3513af8fa936516817ea3e9b958f","size":12000000,"offset":0,"metadata":{"filename_download":"half2.bin","type":"application/octet-stream","storage":"s3","title":"Half2.bin","id":"97eeddc7-6649-4023-b202-91553d687739","upload-id":"qJSliWb5JahXP6BpTG1a068cyQ6d01aMV9dlfUilP0a7mPTJut2p0hypw"},"creation_date":"2026-11-30T15:20:51.168Z"},"uploaded_on":null}', '{"storage":"s3","filename_disk":"97eeddc7-6649-4023-b202-91553d687739.bin","filename_download":"half2.bin","title":"Half2.bin","type":"application/octet-stream","filesize":12000000,"tus_id":"192b3513af8fa936516817ea3e9b958f","tus_data":{"id":"192b3513af8fa936516817ea3e9b958f","size":12000000,"offset":0,"metadata":{"filename_download":"half2.bin","type":"application/octet-stream","storage":"s3","title":"Half2.bin","id":"97eeddc7-6649-4023-b202-91553d687739","upload-id":"qJSliWb5JahXP6BpTG1a068cyQ6d01aMV9dlfUilP0a7mPTJut2p0hypw"},"creation_date":"2026-11-30T15:20:51.168Z"},"modified_by":"c006c490-1660-4fca-bbeb-bb9ade1aa97a","modified_on":"2026-11-30T15:20:51.294Z"}', NULL, NULL);
INSERT INTO public.directus_roles VALUES
	('d1da8229-ef14-4cbc-bdb8-65fe90d30130', 'Administrator', 'verified', '$t:admin_description', NULL);
INSERT INTO public.directus_users VALUES
	('c006c490-1660-4fca-bbeb-bb9ade1aa97a', 'Admin', 'User', 'admin@example.com', '$argon2id$v=19$m=65536,t=3,p=4$TFRrzFQkvjGqYXqTlqTx0w$6JkyEIwe+pfZ30kbHGexKW8fWEV96YfskO5/GEmGqDM', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'active', 'd1da8229-ef14-4cbc-bdb8-65fe90d30130', NULL, '2025-06-02 15:19:56.099+00', NULL, 'default', NULL, NULL, true, NULL, NULL, NULL, NULL, NULL);
SELECT pg_catalog.setval('public.article_id_seq', 1, true);
SELECT pg_catalog.setval('public.directus_activity_id_seq', 36, true);
SELECT pg_catalog.setval('public.directus_fields_id_seq', 3, true);
SELECT pg_catalog.setval('public.directus_notifications_id_seq', 1, false);
SELECT pg_catalog.setval('public.directus_permissions_id_seq', 1, false);
SELECT pg_catalog.setval('public.directus_presets_id_seq', 1, false);
SELECT pg_catalog.setval('public.directus_relations_id_seq', 1, true);
SELECT pg_catalog.setval('public.directus_revisions_id_seq', 34, true);
SELECT pg_catalog.setval('public.directus_settings_id_seq', 1, false);
SELECT pg_catalog.setval('public.directus_webhooks_id_seq', 1, false);
ALTER TABLE ONLY public.article
    ADD CONSTRAINT article_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_access
    ADD CONSTRAINT directus_access_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_activity
    ADD CONSTRAINT directus_activity_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_collections
    ADD CONSTRAINT directus_collections_pkey PRIMARY KEY (collection);
ALTER TABLE ONLY public.directus_dashboards
    ADD CONSTRAINT directus_dashboards_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_extensions
    ADD CONSTRAINT directus_extensions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_fields
    ADD CONSTRAINT directus_fields_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_files
    ADD CONSTRAINT directus_files_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_flows
    ADD CONSTRAINT directus_flows_operation_unique UNIQUE (operation);
ALTER TABLE ONLY public.directus_flows
    ADD CONSTRAINT directus_flows_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_folders
    ADD CONSTRAINT directus_folders_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_migrations
    ADD CONSTRAINT directus_migrations_pkey PRIMARY KEY (version);
ALTER TABLE ONLY public.directus_notifications
    ADD CONSTRAINT directus_notifications_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_operations
    ADD CONSTRAINT directus_operations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_operations
    ADD CONSTRAINT directus_operations_reject_unique UNIQUE (reject);
ALTER TABLE ONLY public.directus_operations
    ADD CONSTRAINT directus_operations_resolve_unique UNIQUE (resolve);
ALTER TABLE ONLY public.directus_panels
    ADD CONSTRAINT directus_panels_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_permissions
    ADD CONSTRAINT directus_permissions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_policies
    ADD CONSTRAINT directus_policies_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_presets
    ADD CONSTRAINT directus_presets_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_relations
    ADD CONSTRAINT directus_relations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_revisions
    ADD CONSTRAINT directus_revisions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_roles
    ADD CONSTRAINT directus_roles_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_sessions
    ADD CONSTRAINT directus_sessions_pkey PRIMARY KEY (token);
ALTER TABLE ONLY public.directus_settings
    ADD CONSTRAINT directus_settings_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_shares
    ADD CONSTRAINT directus_shares_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_translations
    ADD CONSTRAINT directus_translations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_users
    ADD CONSTRAINT directus_users_email_unique UNIQUE (email);
ALTER TABLE ONLY public.directus_users
    ADD CONSTRAINT directus_users_external_identifier_unique UNIQUE (external_identifier);
ALTER TABLE ONLY public.directus_users
    ADD CONSTRAINT directus_users_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_users
    ADD CONSTRAINT directus_users_token_unique UNIQUE (token);
ALTER TABLE ONLY public.directus_versions
    ADD CONSTRAINT directus_versions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.directus_webhooks
    ADD CONSTRAINT directus_webhooks_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.article
    ADD CONSTRAINT article_cover_foreign FOREIGN KEY (cover) REFERENCES public.directus_files(id);
ALTER TABLE ONLY public.directus_access
    ADD CONSTRAINT directus_access_policy_foreign FOREIGN KEY (policy) REFERENCES public.directus_policies(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.directus_access
    ADD CONSTRAINT directus_access_role_foreign FOREIGN KEY (role) REFERENCES public.directus_roles(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.directus_access
    ADD CONSTRAINT directus_access_user_foreign FOREIGN KEY ("user") REFERENCES public.directus_users(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.directus_collections
    ADD CONSTRAINT directus_collections_group_foreign FOREIGN KEY ("group") REFERENCES public.directus_collections(collection);
ALTER TABLE ONLY public.directus_dashboards
    ADD CONSTRAINT directus_dashboards_user_created_foreign FOREIGN KEY (user_created) REFERENCES public.directus_users(id) ON DELETE SET NULL;
ALTER TABLE ONLY public.directus_files
    ADD CONSTRAINT directus_files_folder_foreign FOREIGN KEY (folder) REFERENCES public.directus_folders(id) ON DELETE SET NULL;
ALTER TABLE ONLY public.directus_files
    ADD CONSTRAINT directus_files_modified_by_foreign FOREIGN KEY (modified_by) REFERENCES public.directus_users(id);
ALTER TABLE ONLY public.directus_files
    ADD CONSTRAINT directus_files_uploaded_by_foreign FOREIGN KEY (uploaded_by) REFERENCES public.directus_users(id);
ALTER TABLE ONLY public.directus_flows
    ADD CONSTRAINT directus_flows_user_created_foreign FOREIGN KEY (user_created) REFERENCES public.directus_users(id) ON DELETE SET NULL;
ALTER TABLE ONLY public.directus_folders
    ADD CONSTRAINT directus_folders_parent_foreign FOREIGN KEY (parent) REFERENCES public.directus_folders(id);
ALTER TABLE ONLY public.directus_notifications
    ADD CONSTRAINT directus_notifications_recipient_foreign FOREIGN KEY (recipient) REFERENCES public.directus_users(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.directus_notifications
    ADD CONSTRAINT directus_notifications_sender_foreign FOREIGN KEY (sender) REFERENCES public.directus_users(id);
ALTER TABLE ONLY public.directus_operations
    ADD CONSTRAINT directus_operations_flow_foreign FOREIGN KEY (flow) REFERENCES public.directus_flows(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.directus_operations
    ADD CONSTRAINT directus_operations_reject_foreign FOREIGN KEY (reject) REFERENCES public.directus_operations(id);
ALTER TABLE ONLY public.directus_operations
    ADD CONSTRAINT directus_operations_resolve_foreign FOREIGN KEY (resolve) REFERENCES public.directus_operations(id);
ALTER TABLE ONLY public.directus_operations
    ADD CONSTRAINT directus_operations_user_created_foreign FOREIGN KEY (user_created) REFERENCES public.directus_users(id) ON DELETE SET NULL;
ALTER TABLE ONLY public.directus_panels
    ADD CONSTRAINT directus_panels_dashboard_foreign FOREIGN KEY (dashboard) REFERENCES public.directus_dashboards(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.directus_panels
    ADD CONSTRAINT directus_panels_user_created_foreign FOREIGN KEY (user_created) REFERENCES public.directus_users(id) ON DELETE SET NULL;
ALTER TABLE ONLY public.directus_permissions
    ADD CONSTRAINT directus_permissions_policy_foreign FOREIGN KEY (policy) REFERENCES public.directus_policies(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.directus_presets
    ADD CONSTRAINT directus_presets_role_foreign FOREIGN KEY (role) REFERENCES public.directus_roles(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.directus_presets
    ADD CONSTRAINT directus_presets_user_foreign FOREIGN KEY ("user") REFERENCES public.directus_users(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.directus_revisions
    ADD CONSTRAINT directus_revisions_activity_foreign FOREIGN KEY (activity) REFERENCES public.directus_activity(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.directus_revisions
    ADD CONSTRAINT directus_revisions_parent_foreign FOREIGN KEY (parent) REFERENCES public.directus_revisions(id);
ALTER TABLE ONLY public.directus_revisions
    ADD CONSTRAINT directus_revisions_version_foreign FOREIGN KEY (version) REFERENCES public.directus_versions(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.directus_roles
    ADD CONSTRAINT directus_roles_parent_foreign FOREIGN KEY (parent) REFERENCES public.directus_roles(id);
ALTER TABLE ONLY public.directus_sessions
    ADD CONSTRAINT directus_sessions_share_foreign FOREIGN KEY (share) REFERENCES public.directus_shares(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.directus_sessions
    ADD CONSTRAINT directus_sessions_user_foreign FOREIGN KEY ("user") REFERENCES public.directus_users(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.directus_settings
    ADD CONSTRAINT directus_settings_project_logo_foreign FOREIGN KEY (project_logo) REFERENCES public.directus_files(id);
ALTER TABLE ONLY public.directus_settings
    ADD CONSTRAINT directus_settings_public_background_foreign FOREIGN KEY (public_background) REFERENCES public.directus_files(id);
ALTER TABLE ONLY public.directus_settings
    ADD CONSTRAINT directus_settings_public_favicon_foreign FOREIGN KEY (public_favicon) REFERENCES public.directus_files(id);
ALTER TABLE ONLY public.directus_settings
    ADD CONSTRAINT directus_settings_public_foreground_foreign FOREIGN KEY (public_foreground) REFERENCES public.directus_files(id);
ALTER TABLE ONLY public.directus_settings
    ADD CONSTRAINT directus_settings_public_registration_role_foreign FOREIGN KEY (public_registration_role) REFERENCES public.directus_roles(id) ON DELETE SET NULL;
ALTER TABLE ONLY public.directus_settings
    ADD CONSTRAINT directus_settings_storage_default_folder_foreign FOREIGN KEY (storage_default_folder) REFERENCES public.directus_folders(id) ON DELETE SET NULL;
ALTER TABLE ONLY public.directus_shares
    ADD CONSTRAINT directus_shares_collection_foreign FOREIGN KEY (collection) REFERENCES public.directus_collections(collection) ON DELETE CASCADE;
ALTER TABLE ONLY public.directus_shares
    ADD CONSTRAINT directus_shares_role_foreign FOREIGN KEY (role) REFERENCES public.directus_roles(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.directus_shares
    ADD CONSTRAINT directus_shares_user_created_foreign FOREIGN KEY (user_created) REFERENCES public.directus_users(id) ON DELETE SET NULL;
ALTER TABLE ONLY public.directus_users
    ADD CONSTRAINT directus_users_role_foreign FOREIGN KEY (role) REFERENCES public.directus_roles(id) ON DELETE SET NULL;
ALTER TABLE ONLY public.directus_versions
    ADD CONSTRAINT directus_versions_collection_foreign FOREIGN KEY (collection) REFERENCES public.directus_collections(collection) ON DELETE CASCADE;
ALTER TABLE ONLY public.directus_versions
    ADD CONSTRAINT directus_versions_user_created_foreign FOREIGN KEY (user_created) REFERENCES public.directus_users(id) ON DELETE SET NULL;
ALTER TABLE ONLY public.directus_versions
    ADD CONSTRAINT directus_versions_user_updated_foreign FOREIGN KEY (user_updated) REFERENCES public.directus_users(id);
ALTER TABLE ONLY public.directus_webhooks
    ADD CONSTRAINT directus_webhooks_migrated_flow_foreign FOREIGN KEY (migrated_flow) REFERENCES public.directus_flows(id) ON DELETE SET NULL;
