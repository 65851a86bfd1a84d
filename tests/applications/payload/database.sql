CREATE TYPE public.enum__articles_v_version_status AS ENUM (
    'draft',
    'published'
);
CREATE TYPE public.enum__media_v_version_status AS ENUM (
    'draft',
    'published'
);
CREATE TYPE public.enum_articles_status AS ENUM (
    'draft',
    'published'
);
CREATE TYPE public.enum_media_status AS ENUM (
    'draft',
    'published'
);
CREATE TABLE public._articles_v (
    id integer NOT NULL,
    parent_id integer,
    version_title character varying,
    version_cover_id integer,
    version_body character varying,
    version_updated_at timestamp(3) with time zone,
    version_created_at timestamp(3) with time zone,
    version__status public.enum__articles_v_version_status DEFAULT 'draft'::public.enum__articles_v_version_status,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    updated_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    latest boolean
);
CREATE SEQUENCE public._articles_v_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public._articles_v_id_seq OWNED BY public._articles_v.id;
CREATE TABLE public._media_v (
    id integer NOT NULL,
    parent_id integer,
    version_alt character varying,
    version_prefix character varying DEFAULT 'media'::character varying,
    version__objectkey character varying,
    version_updated_at timestamp(3) with time zone,
    version_created_at timestamp(3) with time zone,
    version__status public.enum__media_v_version_status DEFAULT 'draft'::public.enum__media_v_version_status,
    version_url character varying,
    version_thumbnail_u_r_l character varying,
    version_filename character varying,
    version_mime_type character varying,
    version_filesize numeric,
    version_width numeric,
    version_height numeric,
    version_focal_x numeric,
    version_focal_y numeric,
    version_sizes_thumbnail_url character varying,
    version_sizes_thumbnail_width numeric,
    version_sizes_thumbnail_height numeric,
    version_sizes_thumbnail_mime_type character varying,
    version_sizes_thumbnail_filesize numeric,
    version_sizes_thumbnail_filename character varying,
    version_sizes_card_url character varying,
    version_sizes_card_width numeric,
    version_sizes_card_height numeric,
    version_sizes_card_mime_type character varying,
    version_sizes_card_filesize numeric,
    version_sizes_card_filename character varying,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    updated_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    latest boolean
);
CREATE SEQUENCE public._media_v_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public._media_v_id_seq OWNED BY public._media_v.id;
CREATE TABLE public.articles (
    id integer NOT NULL,
    title character varying,
    cover_id integer,
    body character varying,
    updated_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    _status public.enum_articles_status DEFAULT 'draft'::public.enum_articles_status
);
CREATE SEQUENCE public.articles_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.articles_id_seq OWNED BY public.articles.id;
CREATE TABLE public.documents (
    id integer NOT NULL,
    title character varying,
    prefix character varying DEFAULT 'documents'::character varying,
    _objectkey character varying,
    updated_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    url character varying,
    thumbnail_u_r_l character varying,
    filename character varying,
    mime_type character varying,
    filesize numeric,
    width numeric,
    height numeric,
    focal_x numeric,
    focal_y numeric
);
CREATE SEQUENCE public.documents_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.documents_id_seq OWNED BY public.documents.id;
CREATE TABLE public.media (
    id integer NOT NULL,
    alt character varying,
    prefix character varying DEFAULT 'media'::character varying,
    _objectkey character varying,
    updated_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    _status public.enum_media_status DEFAULT 'draft'::public.enum_media_status,
    url character varying,
    thumbnail_u_r_l character varying,
    filename character varying,
    mime_type character varying,
    filesize numeric,
    width numeric,
    height numeric,
    focal_x numeric,
    focal_y numeric,
    sizes_thumbnail_url character varying,
    sizes_thumbnail_width numeric,
    sizes_thumbnail_height numeric,
    sizes_thumbnail_mime_type character varying,
    sizes_thumbnail_filesize numeric,
    sizes_thumbnail_filename character varying,
    sizes_card_url character varying,
    sizes_card_width numeric,
    sizes_card_height numeric,
    sizes_card_mime_type character varying,
    sizes_card_filesize numeric,
    sizes_card_filename character varying
);
CREATE SEQUENCE public.media_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.media_id_seq OWNED BY public.media.id;
CREATE TABLE public.payload_kv (
    id integer NOT NULL,
    key character varying NOT NULL,
    data jsonb NOT NULL
);
CREATE SEQUENCE public.payload_kv_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.payload_kv_id_seq OWNED BY public.payload_kv.id;
CREATE TABLE public.payload_locked_documents (
    id integer NOT NULL,
    global_slug character varying,
    updated_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL
);
CREATE SEQUENCE public.payload_locked_documents_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.payload_locked_documents_id_seq OWNED BY public.payload_locked_documents.id;
CREATE TABLE public.payload_locked_documents_rels (
    id integer NOT NULL,
    "order" integer,
    parent_id integer NOT NULL,
    path character varying NOT NULL,
    media_id integer,
    documents_id integer,
    articles_id integer,
    users_id integer
);
CREATE SEQUENCE public.payload_locked_documents_rels_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.payload_locked_documents_rels_id_seq OWNED BY public.payload_locked_documents_rels.id;
CREATE TABLE public.payload_migrations (
    id integer NOT NULL,
    name character varying,
    batch numeric,
    updated_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL
);
CREATE SEQUENCE public.payload_migrations_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.payload_migrations_id_seq OWNED BY public.payload_migrations.id;
CREATE TABLE public.payload_preferences (
    id integer NOT NULL,
    key character varying,
    value jsonb,
    updated_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL
);
CREATE SEQUENCE public.payload_preferences_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.payload_preferences_id_seq OWNED BY public.payload_preferences.id;
CREATE TABLE public.payload_preferences_rels (
    id integer NOT NULL,
    "order" integer,
    parent_id integer NOT NULL,
    path character varying NOT NULL,
    users_id integer
);
CREATE SEQUENCE public.payload_preferences_rels_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.payload_preferences_rels_id_seq OWNED BY public.payload_preferences_rels.id;
CREATE TABLE public.users (
    id integer NOT NULL,
    updated_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    created_at timestamp(3) with time zone DEFAULT now() NOT NULL,
    email character varying NOT NULL,
    reset_password_token character varying,
    reset_password_expiration timestamp(3) with time zone,
    salt character varying,
    hash character varying,
    reset_password_requested_at timestamp(3) with time zone,
    login_attempts numeric DEFAULT 0,
    lock_until timestamp(3) with time zone
);
CREATE SEQUENCE public.users_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.users_id_seq OWNED BY public.users.id;
CREATE TABLE public.users_sessions (
    _order integer NOT NULL,
    _parent_id integer NOT NULL,
    id character varying NOT NULL,
    created_at timestamp(3) with time zone,
    expires_at timestamp(3) with time zone NOT NULL
);
ALTER TABLE ONLY public._articles_v ALTER COLUMN id SET DEFAULT nextval('public._articles_v_id_seq'::regclass);
ALTER TABLE ONLY public._media_v ALTER COLUMN id SET DEFAULT nextval('public._media_v_id_seq'::regclass);
ALTER TABLE ONLY public.articles ALTER COLUMN id SET DEFAULT nextval('public.articles_id_seq'::regclass);
ALTER TABLE ONLY public.documents ALTER COLUMN id SET DEFAULT nextval('public.documents_id_seq'::regclass);
ALTER TABLE ONLY public.media ALTER COLUMN id SET DEFAULT nextval('public.media_id_seq'::regclass);
ALTER TABLE ONLY public.payload_kv ALTER COLUMN id SET DEFAULT nextval('public.payload_kv_id_seq'::regclass);
ALTER TABLE ONLY public.payload_locked_documents ALTER COLUMN id SET DEFAULT nextval('public.payload_locked_documents_id_seq'::regclass);
ALTER TABLE ONLY public.payload_locked_documents_rels ALTER COLUMN id SET DEFAULT nextval('public.payload_locked_documents_rels_id_seq'::regclass);
ALTER TABLE ONLY public.payload_migrations ALTER COLUMN id SET DEFAULT nextval('public.payload_migrations_id_seq'::regclass);
ALTER TABLE ONLY public.payload_preferences ALTER COLUMN id SET DEFAULT nextval('public.payload_preferences_id_seq'::regclass);
ALTER TABLE ONLY public.payload_preferences_rels ALTER COLUMN id SET DEFAULT nextval('public.payload_preferences_rels_id_seq'::regclass);
ALTER TABLE ONLY public.users ALTER COLUMN id SET DEFAULT nextval('public.users_id_seq'::regclass);
INSERT INTO public._articles_v VALUES
	(1, 1, 'A walk', 6, 'Look: ![it](/api/media/file/picture%206.png)', '2025-06-02 01:52:31.822+00', '2025-06-02 01:52:31.822+00', 'published', '2025-06-02 01:52:31.845+00', '2025-06-02 01:52:31.845+00', true);
INSERT INTO public._media_v VALUES
	(2, 1, 'Picture 0', 'media', NULL, '2025-06-02 01:52:26.293+00', '2025-06-02 01:52:25.895+00', 'published', '/api/media/file/picture%200.png', NULL, 'picture 0.png', 'image/png', 124, 40, 30, 50, 50, '/api/media/file/picture%200-20x15.png', 20, 15, 'image/png', 104, 'picture 0-20x15.png', '/api/media/file/picture%200-30x20.png', 30, 20, 'image/png', 115, 'picture 0-30x20.png', '2025-06-02 01:52:26.3+00', '2025-06-02 01:52:26.3+00', true),
	(1, 1, 'Picture 0', 'media', NULL, '2025-06-02 01:52:25.896+00', '2025-06-02 01:52:25.895+00', 'published', '/api/media/file/picture%200.png', NULL, 'picture 0.png', 'image/png', 124, 40, 30, 50, 50, '/api/media/file/picture%200-20x15.png', 20, 15, 'image/png', 104, 'picture 0-20x15.png', '/api/media/file/picture%200-30x20.png', 30, 20, 'image/png', 115, 'picture 0-30x20.png', '2025-06-02 01:52:25.964+00', '2025-06-02 01:52:25.964+00', false),
	(4, 2, 'Picture 1', 'media', NULL, '2025-06-02 01:52:26.562+00', '2025-06-02 01:52:26.417+00', 'published', '/api/media/file/picture%201.png', NULL, 'picture 1.png', 'image/png', 128, 40, 30, 50, 50, '/api/media/file/picture%201-20x15.png', 20, 15, 'image/png', 104, 'picture 1-20x15.png', '/api/media/file/picture%201-30x20.png', 30, 20, 'image/png', 115, 'picture 1-30x20.png', '2025-06-02 01:52:26.568+00', '2025-06-02 01:52:26.568+00', true),
	(3, 2, 'Picture 1', 'media', NULL, '2025-06-02 01:52:26.417+00', '2025-06-02 01:52:26.417+00', 'published', '/api/media/file/picture%201.png', NULL, 'picture 1.png', 'image/png', 128, 40, 30, 50, 50, '/api/media/file/picture%201-20x15.png', 20, 15, 'image/png', 104, 'picture 1-20x15.png', '/api/media/file/picture%201-30x20.png', 30, 20, 'image/png', 115, 'picture 1-30x20.png', '2025-06-02 01:52:26.451+00', '2025-06-02 01:52:26.451+00', false),
	(12, 6, 'Picture 5', 'media', NULL, '2025-06-02 01:52:28.982+00', '2025-06-02 01:52:28.621+00', 'published', '/api/media/file/picture%205.png', NULL, 'picture 5.png', 'image/png', 127, 40, 30, 50, 50, '/api/media/file/picture%205-20x15.png', 20, 15, 'image/png', 105, 'picture 5-20x15.png', '/api/media/file/picture%205-30x20.png', 30, 20, 'image/png', 115, 'picture 5-30x20.png', '2025-06-02 01:52:28.987+00', '2025-06-02 01:52:28.987+00', true),
	(11, 6, 'Picture 5', 'media', NULL, '2025-06-02 01:52:28.621+00', '2025-06-02 01:52:28.621+00', 'published', '/api/media/file/picture%205.png', NULL, 'picture 5.png', 'image/png', 127, 40, 30, 50, 50, '/api/media/file/picture%205-20x15.png', 20, 15, 'image/png', 105, 'picture 5-20x15.png', '/api/media/file/picture%205-30x20.png', 30, 20, 'image/png', 115, 'picture 5-30x20.png', '2025-06-02 01:52:28.67+00', '2025-06-02 01:52:28.67+00', false),
	(14, 7, 'Picture 6', 'media', NULL, '2025-06-02 01:52:29.441+00', '2025-06-02 01:52:29.218+00', 'published', '/api/media/file/picture%206.png', NULL, 'picture 6.png', 'image/png', 127, 40, 30, 50, 50, '/api/media/file/picture%206-20x15.png', 20, 15, 'image/png', 105, 'picture 6-20x15.png', '/api/media/file/picture%206-30x20.png', 30, 20, 'image/png', 115, 'picture 6-30x20.png', '2025-06-02 01:52:29.459+00', '2025-06-02 01:52:29.459+00', true),
	(13, 7, 'Picture 6', 'media', NULL, '2025-06-02 01:52:29.218+00', '2025-06-02 01:52:29.218+00', 'published', '/api/media/file/picture%206.png', NULL, 'picture 6.png', 'image/png', 127, 40, 30, 50, 50, '/api/media/file/picture%206-20x15.png', 20, 15, 'image/png', 105, 'picture 6-20x15.png', '/api/media/file/picture%206-30x20.png', 30, 20, 'image/png', 115, 'picture 6-30x20.png', '2025-06-02 01:52:29.23+00', '2025-06-02 01:52:29.23+00', false),
	(22, 11, 'Picture 20', 'media', NULL, '2025-06-02 01:52:30.574+00', '2025-06-02 01:52:30.493+00', 'published', '/api/media/file/picture%201-1.png', NULL, 'picture 1-1.png', 'image/png', 127, 40, 30, 50, 50, '/api/media/file/picture%201-1-20x15.png', 20, 15, 'image/png', 104, 'picture 1-1-20x15.png', '/api/media/file/picture%201-1-30x20.png', 30, 20, 'image/png', 115, 'picture 1-1-30x20.png', '2025-06-02 01:52:30.592+00', '2025-06-02 01:52:30.592+00', true),
	(7, 4, 'Picture 3', 'media', NULL, '2025-06-02 01:52:27.016+00', '2025-06-02 01:52:27.015+00', 'published', '/api/media/file/picture%203.png', NULL, 'picture 3.png', 'image/png', 128, 40, 30, 50, 50, '/api/media/file/picture%203-20x15.png', 20, 15, 'image/png', 104, 'picture 3-20x15.png', '/api/media/file/picture%203-30x20.png', 30, 20, 'image/png', 115, 'picture 3-30x20.png', '2025-06-02 01:52:27.027+00', '2025-06-02 01:52:27.027+00', false),
	(21, 11, 'Picture 20', 'media', NULL, '2025-06-02 01:52:30.493+00', '2025-06-02 01:52:30.493+00', 'published', '/api/media/file/picture%201-1.png', NULL, 'picture 1-1.png', 'image/png', 127, 40, 30, 50, 50, '/api/media/file/picture%201-1-20x15.png', 20, 15, 'image/png', 104, 'picture 1-1-20x15.png', '/api/media/file/picture%201-1-30x20.png', 30, 20, 'image/png', 115, 'picture 1-1-30x20.png', '2025-06-02 01:52:30.504+00', '2025-06-02 01:52:30.504+00', false),
	(24, 12, 'Picture 21', 'media/press', NULL, '2025-06-02 01:52:30.778+00', '2025-06-02 01:52:30.688+00', 'published', '/api/media/file/%C3%9Cberblick%20(1).png', NULL, 'Überblick (1).png', 'image/png', 127, 40, 30, 50, 50, '/api/media/file/%C3%9Cberblick%20(1)-20x15.png', 20, 15, 'image/png', 104, 'Überblick (1)-20x15.png', '/api/media/file/%C3%9Cberblick%20(1)-30x20.png', 30, 20, 'image/png', 115, 'Überblick (1)-30x20.png', '2025-06-02 01:52:30.789+00', '2025-06-02 01:52:30.789+00', true),
	(23, 12, 'Picture 21', 'media/press', NULL, '2025-06-02 01:52:30.688+00', '2025-06-02 01:52:30.688+00', 'published', '/api/media/file/%C3%9Cberblick%20(1).png', NULL, 'Überblick (1).png', 'image/png', 127, 40, 30, 50, 50, '/api/media/file/%C3%9Cberblick%20(1)-20x15.png', 20, 15, 'image/png', 104, 'Überblick (1)-20x15.png', '/api/media/file/%C3%9Cberblick%20(1)-30x20.png', 30, 20, 'image/png', 115, 'Überblick (1)-30x20.png', '2025-06-02 01:52:30.707+00', '2025-06-02 01:52:30.707+00', false),
	(26, 13, 'Picture 22', 'media', 'dca3ee2b-9beb-444c-ac50-51f705d485f4', '2025-06-02 01:52:31.16+00', '2025-06-02 01:52:30.917+00', 'published', '/api/media/file/by%20the%20browser.png', NULL, 'by the browser.png', 'image/png', 127, 40, 30, 50, 50, '/api/media/file/by%20the%20browser-20x15.png', 20, 15, 'image/png', 105, 'by the browser-20x15.png', '/api/media/file/by%20the%20browser-30x20.png', 30, 20, 'image/png', 115, 'by the browser-30x20.png', '2025-06-02 01:52:31.176+00', '2025-06-02 01:52:31.176+00', true),
	(25, 13, 'Picture 22', 'media', 'dca3ee2b-9beb-444c-ac50-51f705d485f4', '2025-06-02 01:52:30.917+00', '2025-06-02 01:52:30.917+00', 'published', '/api/media/file/by%20the%20browser.png', NULL, 'by the browser.png', 'image/png', 127, 40, 30, 50, 50, '/api/media/file/by%20the%20browser-20x15.png', 20, 15, 'image/png', 105, 'by the browser-20x15.png', '/api/media/file/by%20the%20browser-30x20.png', 30, 20, 'image/png', 115, 'by the browser-30x20.png', '2025-06-02 01:52:30.94+00', '2025-06-02 01:52:30.94+00', false),
	(28, 3, 'Picture 2', 'media', NULL, '2025-06-02 01:52:31.365+00', '2025-06-02 01:52:26.694+00', 'published', '/api/media/file/replaced.png', NULL, 'replaced.png', 'image/png', 126, 40, 30, 50, 50, '/api/media/file/replaced-20x15.png', 20, 15, 'image/png', 105, 'replaced-20x15.png', '/api/media/file/replaced-30x20.png', 30, 20, 'image/png', 115, 'replaced-30x20.png', '2025-06-02 01:52:31.367+00', '2025-06-02 01:52:31.367+00', true),
	(6, 3, 'Picture 2', 'media', NULL, '2025-06-02 01:52:26.87+00', '2025-06-02 01:52:26.694+00', 'published', '/api/media/file/picture%202.png', NULL, 'picture 2.png', 'image/png', 128, 40, 30, 50, 50, '/api/media/file/picture%202-20x15.png', 20, 15, 'image/png', 104, 'picture 2-20x15.png', '/api/media/file/picture%202-30x20.png', 30, 20, 'image/png', 115, 'picture 2-30x20.png', '2025-06-02 01:52:26.89+00', '2025-06-02 01:52:26.89+00', false),
	(27, 3, 'Picture 2', 'media', NULL, '2025-06-02 01:52:31.298+00', '2025-06-02 01:52:26.694+00', 'published', '/api/media/file/replaced.png', NULL, 'replaced.png', 'image/png', 126, 40, 30, 50, 50, '/api/media/file/replaced-20x15.png', 20, 15, 'image/png', 105, 'replaced-20x15.png', '/api/media/file/replaced-30x20.png', 30, 20, 'image/png', 115, 'replaced-30x20.png', '2025-06-02 01:52:31.304+00', '2025-06-02 01:52:31.304+00', false),
	(5, 3, 'Picture 2', 'media', NULL, '2025-06-02 01:52:26.694+00', '2025-06-02 01:52:26.694+00', 'published', '/api/media/file/picture%202.png', NULL, 'picture 2.png', 'image/png', 128, 40, 30, 50, 50, '/api/media/file/picture%202-20x15.png', 20, 15, 'image/png', 104, 'picture 2-20x15.png', '/api/media/file/picture%202-30x20.png', 30, 20, 'image/png', 115, 'picture 2-30x20.png', '2025-06-02 01:52:26.709+00', '2025-06-02 01:52:26.709+00', false),
	(30, 4, 'Picture 3', 'media', NULL, '2025-06-02 01:52:31.512+00', '2025-06-02 01:52:27.015+00', 'draft', '/api/media/file/next%20spring.png', NULL, 'next spring.png', 'image/png', 127, 40, 30, 50, 50, '/api/media/file/next%20spring-20x15.png', 20, 15, 'image/png', 105, 'next spring-20x15.png', '/api/media/file/next%20spring-30x20.png', 30, 20, 'image/png', 115, 'next spring-30x20.png', '2025-06-02 01:52:31.512+00', '2025-06-02 01:52:31.512+00', true),
	(8, 4, 'Picture 3', 'media', NULL, '2025-06-02 01:52:27.156+00', '2025-06-02 01:52:27.015+00', 'published', '/api/media/file/picture%203.png', NULL, 'picture 3.png', 'image/png', 128, 40, 30, 50, 50, '/api/media/file/picture%203-20x15.png', 20, 15, 'image/png', 104, 'picture 3-20x15.png', '/api/media/file/picture%203-30x20.png', 30, 20, 'image/png', 115, 'picture 3-30x20.png', '2025-06-02 01:52:27.172+00', '2025-06-02 01:52:27.172+00', false),
	(29, 4, 'Picture 3', 'media', NULL, '2025-06-02 01:52:31.449+00', '2025-06-02 01:52:27.015+00', 'draft', '/api/media/file/next%20spring.png', NULL, 'next spring.png', 'image/png', 127, 40, 30, 50, 50, '/api/media/file/next%20spring-20x15.png', 20, 15, 'image/png', 105, 'next spring-20x15.png', '/api/media/file/next%20spring-30x20.png', 30, 20, 'image/png', 115, 'next spring-30x20.png', '2025-06-02 01:52:31.449+00', '2025-06-02 01:52:31.449+00', false),
	(32, 14, 'Unpublished', 'media', NULL, '2025-06-02 01:52:31.627+00', '2025-06-02 01:52:31.564+00', 'draft', '/api/media/file/unpublished.png', NULL, 'unpublished.png', 'image/png', 128, 40, 30, 50, 50, '/api/media/file/unpublished-20x15.png', 20, 15, 'image/png', 105, 'unpublished-20x15.png', '/api/media/file/unpublished-30x20.png', 30, 20, 'image/png', 115, 'unpublished-30x20.png', '2025-06-02 01:52:31.627+00', '2025-06-02 01:52:31.627+00', true),
	(31, 14, 'Unpublished', 'media', NULL, '2025-06-02 01:52:31.565+00', '2025-06-02 01:52:31.564+00', 'draft', '/api/media/file/unpublished.png', NULL, 'unpublished.png', 'image/png', 128, 40, 30, 50, 50, '/api/media/file/unpublished-20x15.png', 20, 15, 'image/png', 105, 'unpublished-20x15.png', '/api/media/file/unpublished-30x20.png', 30, 20, 'image/png', 115, 'unpublished-30x20.png', '2025-06-02 01:52:31.572+00', '2025-06-02 01:52:31.572+00', false);
INSERT INTO public.articles VALUES
	(1, 'A walk', 6, 'Look: ![it](/api/media/file/picture%206.png)', '2025-06-02 01:52:31.822+00', '2025-06-02 01:52:31.822+00', 'published');
INSERT INTO public.documents VALUES
	(3, 'Paper 2', 'documents', NULL, '2025-06-02 01:52:30.37+00', '2025-06-02 01:52:30.315+00', '/api/documents/file/paper%202.pdf', NULL, 'paper 2.pdf', 'application/pdf', 68, NULL, NULL, NULL, NULL),
	(4, 'Paper 3', 'documents', NULL, '2025-06-02 01:52:30.416+00', '2025-06-02 01:52:30.387+00', '/api/documents/file/paper%203.pdf', NULL, 'paper 3.pdf', 'application/pdf', 69, NULL, NULL, NULL, NULL);
INSERT INTO public.media VALUES
	(1, 'Picture 0', 'media', NULL, '2025-06-02 01:52:26.293+00', '2025-06-02 01:52:25.895+00', 'published', '/api/media/file/picture%200.png', NULL, 'picture 0.png', 'image/png', 124, 40, 30, 50, 50, '/api/media/file/picture%200-20x15.png', 20, 15, 'image/png', 104, 'picture 0-20x15.png', '/api/media/file/picture%200-30x20.png', 30, 20, 'image/png', 115, 'picture 0-30x20.png'),
	(2, 'Picture 1', 'media', NULL, '2025-06-02 01:52:26.562+00', '2025-06-02 01:52:26.417+00', 'published', '/api/media/file/picture%201.png', NULL, 'picture 1.png', 'image/png', 128, 40, 30, 50, 50, '/api/media/file/picture%201-20x15.png', 20, 15, 'image/png', 104, 'picture 1-20x15.png', '/api/media/file/picture%201-30x20.png', 30, 20, 'image/png', 115, 'picture 1-30x20.png'),
	(4, 'Picture 3', 'media', NULL, '2025-06-02 01:52:27.156+00', '2025-06-02 01:52:27.015+00', 'published', '/api/media/file/picture%203.png', NULL, 'picture 3.png', 'image/png', 128, 40, 30, 50, 50, '/api/media/file/picture%203-20x15.png', 20, 15, 'image/png', 104, 'picture 3-20x15.png', '/api/media/file/picture%203-30x20.png', 30, 20, 'image/png', 115, 'picture 3-30x20.png'),
	(6, 'Picture 5', 'media', NULL, '2025-06-02 01:52:28.982+00', '2025-06-02 01:52:28.621+00', 'published', '/api/media/file/picture%205.png', NULL, 'picture 5.png', 'image/png', 127, 40, 30, 50, 50, '/api/media/file/picture%205-20x15.png', 20, 15, 'image/png', 105, 'picture 5-20x15.png', '/api/media/file/picture%205-30x20.png', 30, 20, 'image/png', 115, 'picture 5-30x20.png'),
	(7, 'Picture 6', 'media', NULL, '2025-06-02 01:52:29.441+00', '2025-06-02 01:52:29.218+00', 'published', '/api/media/file/picture%206.png', NULL, 'picture 6.png', 'image/png', 127, 40, 30, 50, 50, '/api/media/file/picture%206-20x15.png', 20, 15, 'image/png', 105, 'picture 6-20x15.png', '/api/media/file/picture%206-30x20.png', 30, 20, 'image/png', 115, 'picture 6-30x20.png'),
	(11, 'Picture 20', 'media', NULL, '2025-06-02 01:52:30.574+00', '2025-06-02 01:52:30.493+00', 'published', '/api/media/file/picture%201-1.png', NULL, 'picture 1-1.png', 'image/png', 127, 40, 30, 50, 50, '/api/media/file/picture%201-1-20x15.png', 20, 15, 'image/png', 104, 'picture 1-1-20x15.png', '/api/media/file/picture%201-1-30x20.png', 30, 20, 'image/png', 115, 'picture 1-1-30x20.png'),
	(12, 'Picture 21', 'media/press', NULL, '2025-06-02 01:52:30.778+00', '2025-06-02 01:52:30.688+00', 'published', '/api/media/file/%C3%9Cberblick%20(1).png', NULL, 'Überblick (1).png', 'image/png', 127, 40, 30, 50, 50, '/api/media/file/%C3%9Cberblick%20(1)-20x15.png', 20, 15, 'image/png', 104, 'Überblick (1)-20x15.png', '/api/media/file/%C3%9Cberblick%20(1)-30x20.png', 30, 20, 'image/png', 115, 'Überblick (1)-30x20.png'),
	(13, 'Picture 22', 'media', 'dca3ee2b-9beb-444c-ac50-51f705d485f4', '2025-06-02 01:52:31.16+00', '2025-06-02 01:52:30.917+00', 'published', '/api/media/file/by%20the%20browser.png', NULL, 'by the browser.png', 'image/png', 127, 40, 30, 50, 50, '/api/media/file/by%20the%20browser-20x15.png', 20, 15, 'image/png', 105, 'by the browser-20x15.png', '/api/media/file/by%20the%20browser-30x20.png', 30, 20, 'image/png', 115, 'by the browser-30x20.png'),
	(3, 'Picture 2', 'media', NULL, '2025-06-02 01:52:31.365+00', '2025-06-02 01:52:26.694+00', 'published', '/api/media/file/replaced.png', NULL, 'replaced.png', 'image/png', 126, 40, 30, 50, 50, '/api/media/file/replaced-20x15.png', 20, 15, 'image/png', 105, 'replaced-20x15.png', '/api/media/file/replaced-30x20.png', 30, 20, 'image/png', 115, 'replaced-30x20.png'),
	(14, 'Unpublished', 'media', NULL, '2025-06-02 01:52:31.565+00', '2025-06-02 01:52:31.564+00', 'draft', '/api/media/file/unpublished.png', NULL, 'unpublished.png', 'image/png', 128, 40, 30, 50, 50, '/api/media/file/unpublished-20x15.png', 20, 15, 'image/png', 105, 'unpublished-20x15.png', '/api/media/file/unpublished-30x20.png', 30, 20, 'image/png', 115, 'unpublished-30x20.png');
SELECT pg_catalog.setval('public._articles_v_id_seq', 1, true);
SELECT pg_catalog.setval('public._media_v_id_seq', 34, true);
SELECT pg_catalog.setval('public.articles_id_seq', 1, true);
SELECT pg_catalog.setval('public.documents_id_seq', 4, true);
SELECT pg_catalog.setval('public.media_id_seq', 14, true);
SELECT pg_catalog.setval('public.payload_kv_id_seq', 1, false);
SELECT pg_catalog.setval('public.payload_locked_documents_id_seq', 1, false);
SELECT pg_catalog.setval('public.payload_locked_documents_rels_id_seq', 1, false);
SELECT pg_catalog.setval('public.payload_migrations_id_seq', 1, true);
SELECT pg_catalog.setval('public.payload_preferences_id_seq', 1, false);
SELECT pg_catalog.setval('public.payload_preferences_rels_id_seq', 1, false);
SELECT pg_catalog.setval('public.users_id_seq', 1, false);
ALTER TABLE ONLY public._articles_v
    ADD CONSTRAINT _articles_v_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public._media_v
    ADD CONSTRAINT _media_v_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.articles
    ADD CONSTRAINT articles_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.documents
    ADD CONSTRAINT documents_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.media
    ADD CONSTRAINT media_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.payload_kv
    ADD CONSTRAINT payload_kv_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.payload_locked_documents
    ADD CONSTRAINT payload_locked_documents_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.payload_locked_documents_rels
    ADD CONSTRAINT payload_locked_documents_rels_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.payload_migrations
    ADD CONSTRAINT payload_migrations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.payload_preferences
    ADD CONSTRAINT payload_preferences_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.payload_preferences_rels
    ADD CONSTRAINT payload_preferences_rels_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.users_sessions
    ADD CONSTRAINT users_sessions_pkey PRIMARY KEY (id);
CREATE INDEX _articles_v_created_at_idx ON public._articles_v USING btree (created_at);
CREATE INDEX _articles_v_latest_idx ON public._articles_v USING btree (latest);
CREATE INDEX _articles_v_parent_idx ON public._articles_v USING btree (parent_id);
CREATE INDEX _articles_v_updated_at_idx ON public._articles_v USING btree (updated_at);
CREATE INDEX _articles_v_version_version__status_idx ON public._articles_v USING btree (version__status);
CREATE INDEX _articles_v_version_version_cover_idx ON public._articles_v USING btree (version_cover_id);
CREATE INDEX _articles_v_version_version_created_at_idx ON public._articles_v USING btree (version_created_at);
CREATE INDEX _articles_v_version_version_updated_at_idx ON public._articles_v USING btree (version_updated_at);
CREATE INDEX _media_v_created_at_idx ON public._media_v USING btree (created_at);
CREATE INDEX _media_v_latest_idx ON public._media_v USING btree (latest);
CREATE INDEX _media_v_parent_idx ON public._media_v USING btree (parent_id);
CREATE INDEX _media_v_updated_at_idx ON public._media_v USING btree (updated_at);
CREATE INDEX _media_v_version_sizes_card_version_sizes_card_filename_idx ON public._media_v USING btree (version_sizes_card_filename);
CREATE INDEX _media_v_version_sizes_thumbnail_version_sizes_thumbnail_idx ON public._media_v USING btree (version_sizes_thumbnail_filename);
CREATE INDEX _media_v_version_version__status_idx ON public._media_v USING btree (version__status);
CREATE INDEX _media_v_version_version_created_at_idx ON public._media_v USING btree (version_created_at);
CREATE INDEX _media_v_version_version_filename_idx ON public._media_v USING btree (version_filename);
CREATE INDEX _media_v_version_version_updated_at_idx ON public._media_v USING btree (version_updated_at);
CREATE INDEX articles__status_idx ON public.articles USING btree (_status);
CREATE INDEX articles_cover_idx ON public.articles USING btree (cover_id);
CREATE INDEX articles_created_at_idx ON public.articles USING btree (created_at);
CREATE INDEX articles_updated_at_idx ON public.articles USING btree (updated_at);
CREATE INDEX documents_created_at_idx ON public.documents USING btree (created_at);
CREATE UNIQUE INDEX documents_filename_idx ON public.documents USING btree (filename);
CREATE INDEX documents_updated_at_idx ON public.documents USING btree (updated_at);
CREATE INDEX media__status_idx ON public.media USING btree (_status);
CREATE INDEX media_created_at_idx ON public.media USING btree (created_at);
CREATE UNIQUE INDEX media_filename_idx ON public.media USING btree (filename);
CREATE INDEX media_sizes_card_sizes_card_filename_idx ON public.media USING btree (sizes_card_filename);
CREATE INDEX media_sizes_thumbnail_sizes_thumbnail_filename_idx ON public.media USING btree (sizes_thumbnail_filename);
CREATE INDEX media_updated_at_idx ON public.media USING btree (updated_at);
CREATE UNIQUE INDEX payload_kv_key_idx ON public.payload_kv USING btree (key);
CREATE INDEX payload_locked_documents_created_at_idx ON public.payload_locked_documents USING btree (created_at);
CREATE INDEX payload_locked_documents_global_slug_idx ON public.payload_locked_documents USING btree (global_slug);
CREATE INDEX payload_locked_documents_rels_articles_id_idx ON public.payload_locked_documents_rels USING btree (articles_id);
CREATE INDEX payload_locked_documents_rels_documents_id_idx ON public.payload_locked_documents_rels USING btree (documents_id);
CREATE INDEX payload_locked_documents_rels_media_id_idx ON public.payload_locked_documents_rels USING btree (media_id);
CREATE INDEX payload_locked_documents_rels_order_idx ON public.payload_locked_documents_rels USING btree ("order");
CREATE INDEX payload_locked_documents_rels_parent_idx ON public.payload_locked_documents_rels USING btree (parent_id);
CREATE INDEX payload_locked_documents_rels_path_idx ON public.payload_locked_documents_rels USING btree (path);
CREATE INDEX payload_locked_documents_rels_users_id_idx ON public.payload_locked_documents_rels USING btree (users_id);
CREATE INDEX payload_locked_documents_updated_at_idx ON public.payload_locked_documents USING btree (updated_at);
CREATE INDEX payload_migrations_created_at_idx ON public.payload_migrations USING btree (created_at);
CREATE INDEX payload_migrations_updated_at_idx ON public.payload_migrations USING btree (updated_at);
CREATE INDEX payload_preferences_created_at_idx ON public.payload_preferences USING btree (created_at);
CREATE INDEX payload_preferences_key_idx ON public.payload_preferences USING btree (key);
CREATE INDEX payload_preferences_rels_order_idx ON public.payload_preferences_rels USING btree ("order");
CREATE INDEX payload_preferences_rels_parent_idx ON public.payload_preferences_rels USING btree (parent_id);
CREATE INDEX payload_preferences_rels_path_idx ON public.payload_preferences_rels USING btree (path);
CREATE INDEX payload_preferences_rels_users_id_idx ON public.payload_preferences_rels USING btree (users_id);
CREATE INDEX payload_preferences_updated_at_idx ON public.payload_preferences USING btree (updated_at);
CREATE INDEX users_created_at_idx ON public.users USING btree (created_at);
CREATE UNIQUE INDEX users_email_idx ON public.users USING btree (email);
CREATE INDEX users_sessions_order_idx ON public.users_sessions USING btree (_order);
CREATE INDEX users_sessions_parent_id_idx ON public.users_sessions USING btree (_parent_id);
CREATE INDEX users_updated_at_idx ON public.users USING btree (updated_at);
ALTER TABLE ONLY public._articles_v
    ADD CONSTRAINT _articles_v_parent_id_articles_id_fk FOREIGN KEY (parent_id) REFERENCES public.articles(id) ON DELETE SET NULL;
ALTER TABLE ONLY public._articles_v
    ADD CONSTRAINT _articles_v_version_cover_id_media_id_fk FOREIGN KEY (version_cover_id) REFERENCES public.media(id) ON DELETE SET NULL;
ALTER TABLE ONLY public._media_v
    ADD CONSTRAINT _media_v_parent_id_media_id_fk FOREIGN KEY (parent_id) REFERENCES public.media(id) ON DELETE SET NULL;
ALTER TABLE ONLY public.articles
    ADD CONSTRAINT articles_cover_id_media_id_fk FOREIGN KEY (cover_id) REFERENCES public.media(id) ON DELETE SET NULL;
ALTER TABLE ONLY public.payload_locked_documents_rels
    ADD CONSTRAINT payload_locked_documents_rels_articles_fk FOREIGN KEY (articles_id) REFERENCES public.articles(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.payload_locked_documents_rels
    ADD CONSTRAINT payload_locked_documents_rels_documents_fk FOREIGN KEY (documents_id) REFERENCES public.documents(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.payload_locked_documents_rels
    ADD CONSTRAINT payload_locked_documents_rels_media_fk FOREIGN KEY (media_id) REFERENCES public.media(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.payload_locked_documents_rels
    ADD CONSTRAINT payload_locked_documents_rels_parent_fk FOREIGN KEY (parent_id) REFERENCES public.payload_locked_documents(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.payload_locked_documents_rels
    ADD CONSTRAINT payload_locked_documents_rels_users_fk FOREIGN KEY (users_id) REFERENCES public.users(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.payload_preferences_rels
    ADD CONSTRAINT payload_preferences_rels_parent_fk FOREIGN KEY (parent_id) REFERENCES public.payload_preferences(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.payload_preferences_rels
    ADD CONSTRAINT payload_preferences_rels_users_fk FOREIGN KEY (users_id) REFERENCES public.users(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.users_sessions
    ADD CONSTRAINT users_sessions_parent_id_fk FOREIGN KEY (_parent_id) REFERENCES public.users(id) ON DELETE CASCADE;
