CREATE TABLE public.action_text_rich_texts (
    id bigint NOT NULL,
    name character varying NOT NULL,
    body text,
    record_type character varying NOT NULL,
    record_id bigint NOT NULL,
    created_at timestamp(6) without time zone NOT NULL,
    updated_at timestamp(6) without time zone NOT NULL
);
CREATE SEQUENCE public.action_text_rich_texts_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.action_text_rich_texts_id_seq OWNED BY public.action_text_rich_texts.id;
CREATE TABLE public.active_storage_attachments (
    id bigint NOT NULL,
    name character varying NOT NULL,
    record_type character varying NOT NULL,
    record_id bigint NOT NULL,
    blob_id bigint NOT NULL,
    created_at timestamp without time zone NOT NULL
);
CREATE SEQUENCE public.active_storage_attachments_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.active_storage_attachments_id_seq OWNED BY public.active_storage_attachments.id;
CREATE TABLE public.active_storage_blobs (
    id bigint NOT NULL,
    key character varying NOT NULL,
    filename character varying NOT NULL,
    content_type character varying,
    metadata text,
    service_name character varying NOT NULL,
    byte_size bigint NOT NULL,
    checksum character varying NOT NULL,
    created_at timestamp without time zone NOT NULL
);
CREATE SEQUENCE public.active_storage_blobs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.active_storage_blobs_id_seq OWNED BY public.active_storage_blobs.id;
CREATE TABLE public.active_storage_variant_records (
    id bigint NOT NULL,
    blob_id bigint NOT NULL,
    variation_digest character varying NOT NULL
);
CREATE SEQUENCE public.active_storage_variant_records_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.active_storage_variant_records_id_seq OWNED BY public.active_storage_variant_records.id;
CREATE TABLE public.ar_internal_metadata (
    key character varying NOT NULL,
    value character varying,
    created_at timestamp(6) without time zone NOT NULL,
    updated_at timestamp(6) without time zone NOT NULL
);
CREATE TABLE public.posts (
    id bigint NOT NULL,
    title character varying,
    created_at timestamp(6) without time zone NOT NULL,
    updated_at timestamp(6) without time zone NOT NULL
);
CREATE SEQUENCE public.posts_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.posts_id_seq OWNED BY public.posts.id;
CREATE TABLE public.schema_migrations (
    version character varying NOT NULL
);
CREATE TABLE public.users (
    id bigint NOT NULL,
    name character varying,
    deleted_at timestamp without time zone,
    created_at timestamp(6) without time zone NOT NULL,
    updated_at timestamp(6) without time zone NOT NULL
);
CREATE SEQUENCE public.users_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.users_id_seq OWNED BY public.users.id;
ALTER TABLE ONLY public.action_text_rich_texts ALTER COLUMN id SET DEFAULT nextval('public.action_text_rich_texts_id_seq'::regclass);
ALTER TABLE ONLY public.active_storage_attachments ALTER COLUMN id SET DEFAULT nextval('public.active_storage_attachments_id_seq'::regclass);
ALTER TABLE ONLY public.active_storage_blobs ALTER COLUMN id SET DEFAULT nextval('public.active_storage_blobs_id_seq'::regclass);
ALTER TABLE ONLY public.active_storage_variant_records ALTER COLUMN id SET DEFAULT nextval('public.active_storage_variant_records_id_seq'::regclass);
ALTER TABLE ONLY public.posts ALTER COLUMN id SET DEFAULT nextval('public.posts_id_seq'::regclass);
ALTER TABLE ONLY public.users ALTER COLUMN id SET DEFAULT nextval('public.users_id_seq'::regclass);
INSERT INTO public.action_text_rich_texts VALUES
	(1, 'content', '<div>a letter <action-text-attachment sgid="BAh7CEkiCGdpZAY6BkVUSSI0Z2lkOi8vbGV0dGVycy9BY3RpdmVTdG9yYWdlOjpCbG9iLzg2P2V4cGlyZXNfaW4GOwBUSSIMcHVycG9zZQY7AFRJIg9hdHRhY2hhYmxlBjsAVEkiD2V4cGlyZXNfYXQGOwBUMA==--5fe67b6ee0130963c4d14b391b83794f5f222786"></action-text-attachment></div>', 'Post', 1, '2025-06-02 15:11:11.665454', '2025-06-02 15:11:11.695693');
INSERT INTO public.active_storage_attachments VALUES
	(2, 'image', 'ActiveStorage::VariantRecord', 1, 2, '2025-06-02 15:10:43.267903'),
	(3, 'image', 'ActiveStorage::VariantRecord', 2, 3, '2025-06-02 15:10:43.911917'),
	(4, 'avatar', 'User', 2, 4, '2025-06-02 15:10:44.377372'),
	(5, 'image', 'ActiveStorage::VariantRecord', 3, 5, '2025-06-02 15:10:44.810297'),
	(6, 'image', 'ActiveStorage::VariantRecord', 4, 6, '2025-06-02 15:10:45.115716'),
	(7, 'avatar', 'User', 3, 7, '2025-06-02 15:10:45.405899'),
	(8, 'image', 'ActiveStorage::VariantRecord', 5, 8, '2025-06-02 15:10:45.903807'),
	(9, 'image', 'ActiveStorage::VariantRecord', 6, 9, '2025-06-02 15:10:46.33599'),
	(10, 'avatar', 'User', 4, 10, '2025-06-02 15:10:46.723581'),
	(11, 'image', 'ActiveStorage::VariantRecord', 7, 11, '2025-06-02 15:10:47.242906'),
	(12, 'image', 'ActiveStorage::VariantRecord', 8, 12, '2025-06-02 15:10:47.678003'),
	(13, 'avatar', 'User', 5, 13, '2025-06-02 15:10:48.031441'),
	(14, 'image', 'ActiveStorage::VariantRecord', 9, 14, '2025-06-02 15:10:48.744466'),
	(15, 'image', 'ActiveStorage::VariantRecord', 10, 15, '2025-06-02 15:10:49.295672'),
	(17, 'image', 'ActiveStorage::VariantRecord', 11, 17, '2025-06-02 15:10:50.229221'),
	(18, 'image', 'ActiveStorage::VariantRecord', 12, 18, '2025-06-02 15:10:50.783358'),
	(19, 'avatar', 'User', 7, 19, '2025-06-02 15:10:51.048357'),
	(20, 'image', 'ActiveStorage::VariantRecord', 13, 20, '2025-06-02 15:10:51.459492'),
	(21, 'image', 'ActiveStorage::VariantRecord', 14, 21, '2025-06-02 15:10:51.783533'),
	(22, 'avatar', 'User', 8, 22, '2025-06-02 15:10:52.045936'),
	(23, 'image', 'ActiveStorage::VariantRecord', 15, 23, '2025-06-02 15:10:52.428416'),
	(24, 'image', 'ActiveStorage::VariantRecord', 16, 24, '2025-06-02 15:10:52.750939'),
	(25, 'avatar', 'User', 9, 25, '2025-06-02 15:10:53.009401'),
	(26, 'image', 'ActiveStorage::VariantRecord', 17, 26, '2025-06-02 15:10:53.663249'),
	(27, 'image', 'ActiveStorage::VariantRecord', 18, 27, '2025-06-02 15:10:54.061304'),
	(28, 'avatar', 'User', 10, 28, '2025-06-02 15:10:54.289509'),
	(29, 'image', 'ActiveStorage::VariantRecord', 19, 29, '2025-06-02 15:10:54.456967'),
	(30, 'image', 'ActiveStorage::VariantRecord', 20, 30, '2025-06-02 15:10:54.690395'),
	(31, 'avatar', 'User', 11, 31, '2025-06-02 15:10:54.935776'),
	(32, 'image', 'ActiveStorage::VariantRecord', 21, 32, '2025-06-02 15:10:55.347944'),
	(33, 'image', 'ActiveStorage::VariantRecord', 22, 33, '2025-06-02 15:10:55.964822'),
	(37, 'photos', 'Post', 1, 37, '2025-06-02 15:10:57.769976'),
	(38, 'photos', 'Post', 1, 38, '2025-06-02 15:10:58.111661'),
	(39, 'photos', 'Post', 1, 39, '2025-06-02 15:10:58.372271'),
	(40, 'image', 'ActiveStorage::VariantRecord', 25, 40, '2025-06-02 15:10:58.604953'),
	(41, 'image', 'ActiveStorage::VariantRecord', 26, 41, '2025-06-02 15:10:58.849193'),
	(42, 'image', 'ActiveStorage::VariantRecord', 27, 42, '2025-06-02 15:10:59.222991'),
	(43, 'photos', 'Post', 2, 43, '2025-06-02 15:10:59.787552'),
	(44, 'photos', 'Post', 2, 44, '2025-06-02 15:11:00.065195'),
	(45, 'photos', 'Post', 2, 45, '2025-06-02 15:11:00.33032'),
	(46, 'image', 'ActiveStorage::VariantRecord', 28, 46, '2025-06-02 15:11:00.726154'),
	(47, 'image', 'ActiveStorage::VariantRecord', 29, 47, '2025-06-02 15:11:01.188936'),
	(48, 'image', 'ActiveStorage::VariantRecord', 30, 48, '2025-06-02 15:11:01.567392'),
	(49, 'photos', 'Post', 3, 49, '2025-06-02 15:11:02.065984'),
	(50, 'photos', 'Post', 3, 50, '2025-06-02 15:11:02.36836'),
	(51, 'photos', 'Post', 3, 51, '2025-06-02 15:11:02.677839'),
	(52, 'image', 'ActiveStorage::VariantRecord', 31, 52, '2025-06-02 15:11:03.048646'),
	(53, 'image', 'ActiveStorage::VariantRecord', 32, 53, '2025-06-02 15:11:03.267032'),
	(54, 'image', 'ActiveStorage::VariantRecord', 33, 54, '2025-06-02 15:11:03.751133'),
	(55, 'photos', 'Post', 4, 55, '2025-06-02 15:11:03.99522');
INSERT INTO public.active_storage_attachments VALUES
	(56, 'photos', 'Post', 4, 56, '2025-06-02 15:11:04.229752'),
	(57, 'photos', 'Post', 4, 57, '2025-06-02 15:11:04.545534'),
	(58, 'image', 'ActiveStorage::VariantRecord', 34, 58, '2025-06-02 15:11:04.9447'),
	(59, 'image', 'ActiveStorage::VariantRecord', 35, 59, '2025-06-02 15:11:05.36298'),
	(60, 'image', 'ActiveStorage::VariantRecord', 36, 60, '2025-06-02 15:11:05.757809'),
	(61, 'photos', 'Post', 5, 61, '2025-06-02 15:11:06.05132'),
	(62, 'photos', 'Post', 5, 62, '2025-06-02 15:11:06.513528'),
	(63, 'photos', 'Post', 5, 63, '2025-06-02 15:11:06.945751'),
	(64, 'image', 'ActiveStorage::VariantRecord', 37, 64, '2025-06-02 15:11:07.483897'),
	(65, 'image', 'ActiveStorage::VariantRecord', 38, 65, '2025-06-02 15:11:07.940121'),
	(66, 'image', 'ActiveStorage::VariantRecord', 39, 66, '2025-06-02 15:11:08.26337'),
	(67, 'photos', 'Post', 6, 67, '2025-06-02 15:11:08.491479'),
	(68, 'photos', 'Post', 6, 68, '2025-06-02 15:11:08.780033'),
	(69, 'photos', 'Post', 6, 69, '2025-06-02 15:11:08.961918'),
	(70, 'image', 'ActiveStorage::VariantRecord', 40, 70, '2025-06-02 15:11:09.252294'),
	(71, 'image', 'ActiveStorage::VariantRecord', 41, 71, '2025-06-02 15:11:09.611255'),
	(72, 'image', 'ActiveStorage::VariantRecord', 42, 72, '2025-06-02 15:11:09.975278'),
	(73, 'cv', 'User', 1, 73, '2025-06-02 15:11:10.210576'),
	(74, 'cv', 'User', 2, 74, '2025-06-02 15:11:10.263181'),
	(75, 'cv', 'User', 3, 75, '2025-06-02 15:11:10.324064'),
	(76, 'cv', 'User', 4, 76, '2025-06-02 15:11:10.387379'),
	(77, 'cv', 'User', 5, 77, '2025-06-02 15:11:10.445176'),
	(79, 'cv', 'User', 7, 79, '2025-06-02 15:11:10.555621'),
	(80, 'cv', 'User', 8, 80, '2025-06-02 15:11:10.635581'),
	(81, 'cv', 'User', 9, 81, '2025-06-02 15:11:10.703441'),
	(82, 'cv', 'User', 10, 82, '2025-06-02 15:11:10.778401'),
	(83, 'cv', 'User', 11, 83, '2025-06-02 15:11:10.819387'),
	(84, 'cv', 'User', 12, 84, '2025-06-02 15:11:10.871359'),
	(85, 'avatar', 'User', 12, 85, '2025-06-02 15:11:10.987303'),
	(86, 'embeds', 'ActionText::RichText', 1, 86, '2025-06-02 15:11:11.68863'),
	(87, 'cover', 'Post', 2, 87, '2025-06-02 15:11:12.043914'),
	(88, 'avatar', 'User', 1, 88, '2025-06-02 15:11:12.272073'),
	(90, 'avatar', 'User', 13, 90, '2025-06-02 15:11:12.455962'),
	(93, 'image', 'ActiveStorage::VariantRecord', 44, 103, '2025-06-02 15:11:14.282509'),
	(94, 'avatar', 'User', 14, 104, '2025-06-02 15:11:20.112625'),
	(95, 'avatar', 'User', 15, 105, '2025-06-02 15:11:20.710923'),
	(96, 'avatar', 'User', 16, 106, '2025-06-02 15:11:21.043534'),
	(99, 'avatar', 'User', 18, 109, '2025-06-02 15:11:22.49582');
INSERT INTO public.active_storage_blobs VALUES
	(1, 'vqzrihf46y7c8regfe0f0iahrkvs', 'Fötø 0.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 156, 'K1SP3ngaeksl+M0FdZ2+mQ==', '2025-06-02 15:10:42.054373'),
	(2, 'shho7xfiyxtxz3qdd53fyylmxqfm', 'Fötø 0.png', 'image/png', '{"identified":true,"width":30,"height":20,"analyzed":true}', 'amazon', 108, 'OMx9Alc4vRIv2ivqL90jDg==', '2025-06-02 15:10:43.25581'),
	(3, '6yp8d45gzlickwy7pwnxfhkl4emn', 'Fötø 0.png', 'image/png', '{"identified":true,"width":20,"height":13,"analyzed":true}', 'amazon', 99, '52yU3t0rR0pZj4EM3mkFwg==', '2025-06-02 15:10:43.906031'),
	(4, 'kvb8orvjdmg5awxutgficfg4pd58', 'Fötø 1.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 145, 'q8FaRfHJXagkz2pNm5LXDQ==', '2025-06-02 15:10:44.37587'),
	(5, 'e4wnkc1330pd5mcmmv8twmw02gfo', 'Fötø 1.png', 'image/png', '{"identified":true,"width":30,"height":20,"analyzed":true}', 'amazon', 109, '1iCowfUbiophvm9BTr+yfg==', '2025-06-02 15:10:44.807643'),
	(6, '6nyt7o79qf3dc1y0tm2u6x55byon', 'Fötø 1.png', 'image/png', '{"identified":true,"width":20,"height":13,"analyzed":true}', 'amazon', 100, 'fmp0fbPGDvDjYxkDmMBPIw==', '2025-06-02 15:10:45.104812'),
	(7, '0btduwg81n609m3rzts0l8151r0x', 'Fötø 2.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 145, 'wCIbGTmHwmRfGC8n7mrr4g==', '2025-06-02 15:10:45.396691'),
	(8, '1brr8vzeb5vmy0njacbs9uqf4rwl', 'Fötø 2.png', 'image/png', '{"identified":true,"width":30,"height":20,"analyzed":true}', 'amazon', 109, 'nK8yxTri2doTy4vRYX08Yg==', '2025-06-02 15:10:45.899696'),
	(9, '44aw673mk6cjdnr1m75jkldd8fxl', 'Fötø 2.png', 'image/png', '{"identified":true,"width":20,"height":13,"analyzed":true}', 'amazon', 100, 'fu+YjaH32WdO9Hbb75uBnA==', '2025-06-02 15:10:46.327591'),
	(10, '0paubttjaciensmsfe40v6i26pdx', 'Fötø 3.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 145, 'q3ai+z0PWk9vfGLOzOQIMw==', '2025-06-02 15:10:46.717051'),
	(11, 'ozd2sfaxggyhryshlxceindk0zb3', 'Fötø 3.png', 'image/png', '{"identified":true,"width":30,"height":20,"analyzed":true}', 'amazon', 109, 'u9fiKvP5Gp/qqWQrif+z1A==', '2025-06-02 15:10:47.233715'),
	(12, 'k40kgtjuz0koa26zvon7cmzl7yxw', 'Fötø 3.png', 'image/png', '{"identified":true,"width":20,"height":13,"analyzed":true}', 'amazon', 100, 'JjUgfqSGzPs46nJQPKXj/A==', '2025-06-02 15:10:47.676233'),
	(13, 'eii093rjncbrku9fjv009ja0kfyh', 'Fötø 4.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 145, 'uYfi9znQ+sXMxmIXABYrSA==', '2025-06-02 15:10:48.025527'),
	(14, 'ihbxasbx85dlmkaivp6h6yyxy5tn', 'Fötø 4.png', 'image/png', '{"identified":true,"width":30,"height":20,"analyzed":true}', 'amazon', 109, 'kyc0LhnA6Y+ycKWLqn6XVA==', '2025-06-02 15:10:48.735735'),
	(15, 'bg0wrvf79nk60dcohc1zrj5ld7ci', 'Fötø 4.png', 'image/png', '{"identified":true,"width":20,"height":13,"analyzed":true}', 'amazon', 100, 'fC/Dem6e+FcbxsvRTlXp/w==', '2025-06-02 15:10:49.28414'),
	(16, '62jlkdoksf85ybcg2wk2htr4b3ce', 'Fötø 5.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 145, 'O0LJWU3QfVZuS6bdBzVpXA==', '2025-06-02 15:10:49.764836'),
	(17, 'rtfk4yit9hjl32z0d6y48lufar9i', 'Fötø 5.png', 'image/png', '{"identified":true,"width":30,"height":20,"analyzed":true}', 'amazon', 109, 'dv3YFHQRnAjSHiVWlA2Htg==', '2025-06-02 15:10:50.21918'),
	(18, 'dusxxhxehn5hu3rpa454efw0662r', 'Fötø 5.png', 'image/png', '{"identified":true,"width":20,"height":13,"analyzed":true}', 'amazon', 100, '0HSD5LD13IPGvyc8sOAzVg==', '2025-06-02 15:10:50.777326'),
	(19, '1wkrg5orva86v2v2bfkm0fqjeht8', 'Fötø 6.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 144, 'MDs3oQTs6eonjNAyojcBJg==', '2025-06-02 15:10:51.038566'),
	(20, '5d3umia1nxo5i1dq05bo9l40a063', 'Fötø 6.png', 'image/png', '{"identified":true,"width":30,"height":20,"analyzed":true}', 'amazon', 109, 'OsgiLnXD2Eq4lCrCCwC36g==', '2025-06-02 15:10:51.454205'),
	(21, '90ebgagxuqibg6q4nslzjq6u462b', 'Fötø 6.png', 'image/png', '{"identified":true,"width":20,"height":13,"analyzed":true}', 'amazon', 100, 'oURRn4s1WRucERWSUK2zKg==', '2025-06-02 15:10:51.775689'),
	(22, '5ybwl52ob1vdizdaytmzyq07mtph', 'Fötø 7.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 145, 'KCDTIcOeiKKiJV3riO9pwQ==', '2025-06-02 15:10:52.039721'),
	(23, 'ns90aalw4dxcjs03uaq4gwnxaxhk', 'Fötø 7.png', 'image/png', '{"identified":true,"width":30,"height":20,"analyzed":true}', 'amazon', 109, '2eMjDQ7TTrU6p8nBFNzfQw==', '2025-06-02 15:10:52.423695'),
	(24, 'gt6dm4yz3ttpjjzk8va5g5d70s2d', 'Fötø 7.png', 'image/png', '{"identified":true,"width":20,"height":13,"analyzed":true}', 'amazon', 100, 'tKTDul/D967ofUva+BzYLA==', '2025-06-02 15:10:52.74751'),
	(25, 'wgqro0r6pvkhzb4uotcwotspxfol', 'Fötø 8.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 145, '6N7xIgxw58Tk87E9dHAT3w==', '2025-06-02 15:10:53.007666'),
	(26, 'l12c4miqowzr3swpvzsbjdxigt9f', 'Fötø 8.png', 'image/png', '{"identified":true,"width":30,"height":20,"analyzed":true}', 'amazon', 109, '/1C4gOus4yjSIDj0q14bxQ==', '2025-06-02 15:10:53.656565'),
	(27, 'twenj5382xyzkbkgr04p5b25m3et', 'Fötø 8.png', 'image/png', '{"identified":true,"width":20,"height":13,"analyzed":true}', 'amazon', 100, 'f8GSSuz6jCMk2/oWRnTPKw==', '2025-06-02 15:10:54.051297'),
	(28, 'x3yon7ne949m08slz0mg5g8ezuk4', 'Fötø 9.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 144, 'pBQGNSiUmvOOGl3f992KMA==', '2025-06-02 15:10:54.288425'),
	(29, 'ngtrkhak2kqul9mmnnlmqsbesmss', 'Fötø 9.png', 'image/png', '{"identified":true,"width":30,"height":20,"analyzed":true}', 'amazon', 109, 'fJ4zcYORiI24YT2C6DVNCQ==', '2025-06-02 15:10:54.45612'),
	(30, 'dt7fyks4y04yeamafvo951eey127', 'Fötø 9.png', 'image/png', '{"identified":true,"width":20,"height":13,"analyzed":true}', 'amazon', 100, 'UQ8J8SSeQeicyaat+wgYLA==', '2025-06-02 15:10:54.689469'),
	(31, '10y2t7fxnn8n94e0u68fby3l78x3', 'Fötø 10.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 144, 'eFKrsLTTMgPPZeCZOYIPyg==', '2025-06-02 15:10:54.934797'),
	(32, 'cul11n7079gzvyxwt75pgzmjazjb', 'Fötø 10.png', 'image/png', '{"identified":true,"width":30,"height":20,"analyzed":true}', 'amazon', 109, '47EoZkhJMWUB2yj3I82gdw==', '2025-06-02 15:10:55.339937'),
	(33, '0upjz8ljvdk07sdm5s39ygfjpevn', 'Fötø 10.png', 'image/png', '{"identified":true,"width":20,"height":13,"analyzed":true}', 'amazon', 100, 'bn85yShv7JU7yEzWG0+7wA==', '2025-06-02 15:10:55.958211'),
	(37, '9tvrln4ib0ckfuq893s44kk82bff', 'Fötø 100.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 848, 'RBHh26BbwU7hTg3GE8zCzQ==', '2025-06-02 15:10:57.768494'),
	(38, 'mxb24f0fcdgc0qv7bz7oq6p6038i', 'Fötø 101.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 848, '58zpB8g9cM1YC6nX2fAIvA==', '2025-06-02 15:10:58.089789'),
	(39, 'jg7bsyl25srfy9pbaf8t7684tbxq', 'Fötø 102.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 848, 'BRzQz9aLO0JwYuvtYhdLPQ==', '2025-06-02 15:10:58.36024'),
	(40, 'jx5h60plzdrq196sivw19k19zu04', 'Fötø 100.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 816, 'hsg0Jt/pQ6s/0Ut3o8S7Eg==', '2025-06-02 15:10:58.603387'),
	(41, 'zdglwnzjnu3qj9gn9r3aj070h3zv', 'Fötø 101.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 816, 'bbc/CHggh8QUMxLFc5EA0Q==', '2025-06-02 15:10:58.843447'),
	(42, 'gvqam4z3mapgdat1dy3nstb1j2hr', 'Fötø 102.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 816, 'o3M8pt+Yo3JWTEdBRYDwyQ==', '2025-06-02 15:10:59.21956'),
	(43, '271c4l1ja8m45gj7xfmc07ibgif0', 'Fötø 103.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 848, 'VZZ4Zs2tQaiKAU66rJaKzg==', '2025-06-02 15:10:59.782007'),
	(44, '4opuzkbcahmj3kvtvumerw4cxd5w', 'Fötø 104.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 848, 'O4FxVzIcKbky9x/BqnSd9Q==', '2025-06-02 15:11:00.063638'),
	(45, '6ldopkfs64t9eewiw006nl8prc4j', 'Fötø 105.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 848, 'lV7c9sT6oibYEhfMmkF87g==', '2025-06-02 15:11:00.326402'),
	(46, 'yfyx0waeqda2b4xnecokitvrug0m', 'Fötø 103.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 816, 'kkE6Dk2VB3FZiML+uUXnuA==', '2025-06-02 15:11:00.720738'),
	(47, 'k2baelgjj336zis6gt31w547ia4x', 'Fötø 104.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 816, '+BR/6uAJf7Pe5JYC1Sdaew==', '2025-06-02 15:11:01.187477'),
	(48, '47o63c15cbo5k0i7j2iw01u8nvdi', 'Fötø 105.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 816, 'FQMHj5qNIMRyy+9vFEhARQ==', '2025-06-02 15:11:01.564231'),
	(49, 'v29f45o1sqmzi7azm5p2psklzzpb', 'Fötø 106.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 848, '1c1NWAcw78CkIXJP9ikZ/g==', '2025-06-02 15:11:02.056569'),
	(50, 'yg5wtwgp6xt54lrfwcmk0uw2zqbb', 'Fötø 107.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 849, 'gedkJSegKCYvls/LGIYlRA==', '2025-06-02 15:11:02.352752'),
	(51, '0b572pi1j438fho0rmdrjan5y2es', 'Fötø 108.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 849, 'TtZifqxV8WY0APMMd5uktA==', '2025-06-02 15:11:02.666387'),
	(52, 'qppqzgp4bhnqpnju4yfbriy5e9hz', 'Fötø 106.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 816, '3Ge80WyieWSroURIZRai/A==', '2025-06-02 15:11:03.039852'),
	(53, 'gvc8ttmiotrsb2aw7s62dhu2k0bo', 'Fötø 107.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 817, '6i8PnOutORHqx0maz2ikuA==', '2025-06-02 15:11:03.265157');
INSERT INTO public.active_storage_blobs VALUES
	(54, 'la5f78pe4hb2w2z34rfyxpip3g16', 'Fötø 108.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 817, 'Sn4jC/LUkbIe362wPhy8gg==', '2025-06-02 15:11:03.746512'),
	(55, 'd2mx7yhes6zbhfwumrl619dwsmb1', 'Fötø 109.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 849, 'k694CdHhRMkAykGWZ9eeQw==', '2025-06-02 15:11:03.992429'),
	(56, '5dzc3l6e7uv3q4eqg3476w1jbyx8', 'Fötø 110.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 848, '/P6XBTAgqDHiFOOBnRQBsg==', '2025-06-02 15:11:04.221287'),
	(57, 'kt9sme7757gzvnriafaizxaef7pr', 'Fötø 111.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 848, 'O5FwTbNk+cGjrRVNxNzTog==', '2025-06-02 15:11:04.530039'),
	(58, 'ov5yues5cthm27dd8rxc49rwxdwk', 'Fötø 109.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 817, 'JkLSRjXXsquY1HP/HpG8Mg==', '2025-06-02 15:11:04.943463'),
	(59, 'qs7yjkk9oualyt9i543hpaur9cqo', 'Fötø 110.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 816, 'S367B1/vqofKLQoLIVZUtQ==', '2025-06-02 15:11:05.35702'),
	(60, 'j23f192bhe5z2nru1g8ahlhzkvda', 'Fötø 111.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 816, 'kziYjtdi+noGrUrP/ZqLHA==', '2025-06-02 15:11:05.755365'),
	(61, 'nmieo65a5kujjtznta8jfbg3mpw9', 'Fötø 112.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 848, '5wHaKov63dOAGQamsUTlsQ==', '2025-06-02 15:11:06.047732'),
	(62, '4wow43wpgwxq33uqcoi4tzbazva7', 'Fötø 113.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 848, 'b5ADKsue5HO0Am5rbKu1Cg==', '2025-06-02 15:11:06.511748'),
	(63, 'z7o3fm9z0hh3yx3cgtms9v5vmuir', 'Fötø 114.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 849, 'PgN4g5/K9LELIuESsGkI8Q==', '2025-06-02 15:11:06.939884'),
	(64, '41d1xdd9150cbei85wkpqdcb4u3e', 'Fötø 112.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 816, 'lF8InZusAsgqbV1E0xSCTA==', '2025-06-02 15:11:07.477233'),
	(65, 'tbs56kryi7c38sv9ugq7mdhlztnl', 'Fötø 113.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 816, 'vVxAaSBJs7kDfBn9UBo5nQ==', '2025-06-02 15:11:07.936623'),
	(66, 'h2s2sw1tyusl0ior77vxhlxlfj1f', 'Fötø 114.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 817, 'X+1XiSOJ1PDIsNIW673DsA==', '2025-06-02 15:11:08.259599'),
	(67, 'rcbmcckb9e60lfzy9t97rjwrntn1', 'Fötø 115.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 849, 'Or6Ny25hx5kL9ChlxXMLOQ==', '2025-06-02 15:11:08.489323'),
	(68, '7v24byqfzp01q6qjel7gk27npu3h', 'Fötø 116.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 849, 'zOfymK8kBp7i6A1NmntZGQ==', '2025-06-02 15:11:08.776119'),
	(69, 'jk7477tte6frypuksocjr1tx0674', 'Fötø 117.jpg', 'image/jpeg', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 849, 'HZ2j/GENM7D11+Ei2BHQlw==', '2025-06-02 15:11:08.958206'),
	(70, '32vubm8kkvu7we1a49cfqprkkd5i', 'Fötø 115.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 817, 'HQmNYnM5Uyfxj2dJF4/HEA==', '2025-06-02 15:11:09.244671'),
	(71, 'm0uz0plz0wswqpamb3xk9cjftc53', 'Fötø 116.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 817, 'pAlcRJvLtvZeobyJRcbUKQ==', '2025-06-02 15:11:09.607558'),
	(72, 'z5yzet6b8e17a47wy8rlw5tg9knw', 'Fötø 117.jpg', 'image/jpeg', '{"identified":true,"width":25,"height":17,"analyzed":true}', 'amazon', 817, 'vsqLJz2Xm0S8xTo0Mu0AIA==', '2025-06-02 15:11:09.971611'),
	(73, 'bg4igg1bx30k35ib4toazfhjc7dl', 'cv.pdf', 'application/pdf', '{"identified":true,"analyzed":true}', 'archive', 10, '5SuiXnZs1Lzhvw7gXge7ew==', '2025-06-02 15:11:10.209588'),
	(74, 'p88gzswxtza3hhohbgproooxzj0f', 'cv.pdf', 'application/pdf', '{"identified":true,"analyzed":true}', 'archive', 10, 'kuDfQpT4RKPqR5aCL2ZWRw==', '2025-06-02 15:11:10.259479'),
	(75, 'hwjpmjch88p5n2z4egb7ofj8w4n6', 'cv.pdf', 'application/pdf', '{"identified":true,"analyzed":true}', 'archive', 10, 'M4PCBBBxAKAiaYVDqs6vhA==', '2025-06-02 15:11:10.315683'),
	(76, '82krobw1iicf0gh33njln0i2dq0h', 'cv.pdf', 'application/pdf', '{"identified":true,"analyzed":true}', 'archive', 10, 't8nkdtT2X44c8i/8fDpCaw==', '2025-06-02 15:11:10.383764'),
	(77, 'bphgen5cxk2rnez3mf10lxgowpsm', 'cv.pdf', 'application/pdf', '{"identified":true,"analyzed":true}', 'archive', 10, 'EzrT7lDlm9ailo+phD1SSA==', '2025-06-02 15:11:10.443667'),
	(103, '1l4c3pntyw5kvbvgl9hgyyv2ifko', 'direct 520.png', 'image/png', '{"identified":true,"width":30,"height":20,"analyzed":true}', 'amazon', 109, '47EoZkhJMWUB2yj3I82gdw==', '2025-06-02 15:11:14.276763'),
	(79, 'hr279bph8v9xa5xme1vt7jesurlj', 'cv.pdf', 'application/pdf', '{"identified":true,"analyzed":true}', 'archive', 10, 'a+M3ijX2HflLye9zdypQdQ==', '2025-06-02 15:11:10.551651'),
	(80, '9hz93v26700hht6v97khohv4e0lt', 'cv.pdf', 'application/pdf', '{"identified":true,"analyzed":true}', 'archive', 10, 'pvg7kYSRs/Z27xz+FFyigA==', '2025-06-02 15:11:10.627284'),
	(81, 'zuuk7ua6focz2qws106d5dxr85zk', 'cv.pdf', 'application/pdf', '{"identified":true,"analyzed":true}', 'archive', 10, 'wsONAvLHkI+SPIMYqrklFQ==', '2025-06-02 15:11:10.697507'),
	(82, '0y7btna46plb7y24lln4yeyufcsq', 'cv.pdf', 'application/pdf', '{"identified":true,"analyzed":true}', 'archive', 11, 'b8Qh/bSaneaLJ0zWbPsHlA==', '2025-06-02 15:11:10.769901'),
	(83, 'neonm9axv6m5t4s8hdd081d3ndu0', 'cv.pdf', 'application/pdf', '{"identified":true,"analyzed":true}', 'archive', 11, '4YGb0XiTiWt3irSnEd6HaA==', '2025-06-02 15:11:10.817272'),
	(84, 'bk1io1241dgtnzk7kwjyo89jx463', 'cv.pdf', 'application/pdf', '{"identified":true,"analyzed":true}', 'archive', 11, '/WiniTCilCMMY7D3M7J5FQ==', '2025-06-02 15:11:10.865174'),
	(85, '9pdl77ou5vvwqhjo0z0o21wzjjdk', 'direct 200.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 144, 'dFhPUAlhacw0uKDHxM+haw==', '2025-06-02 15:11:10.923462'),
	(86, 'ymzjg630gxohdp0h79mrvoozzvea', '300.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 145, 's7XTmOuJsvpnLUfT1IlSIQ==', '2025-06-02 15:11:11.428226'),
	(87, 'tenants/7/brand/logo 1.png', '301.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 145, 'LdWHIVDYouAvXHgxkJqbqw==', '2025-06-02 15:11:11.991445'),
	(88, 'blhwxh9h0renyttkwh5iq55jh80c', 'Fötø 400.png', 'image/png', '{"identified":true}', 'amazon', 145, 'a4Pb4s+yuRfH3kJs1WGm2A==', '2025-06-02 15:11:12.26867'),
	(89, 'ueilr49h0cufr4jjic3bvc9w203n', 'Fötø 401.png', 'image/png', '{"identified":true}', 'amazon', 144, '5979AuXmUpm7pxeAHbo+/w==', '2025-06-02 15:11:12.351894'),
	(90, 'd6ib9nssy05rv0v1poz3c9d2tw67', 'Fötø 402.png', 'image/png', '{"identified":true}', 'amazon', 144, 'x41LDLXI61c5m9TU2pXD0Q==', '2025-06-02 15:11:12.448347'),
	(91, 'abp42h50d7y8d8jk7klnzmvy6zlm', 'Fötø 410.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 145, 'Ejd5T0AhjwgFH9/VwDHYHQ==', '2025-06-02 15:11:12.743795'),
	(104, '3fpfsz4vct9hxmzytxsqsv6blg3g', 'Fötø 600.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 144, 'UzbuEQJT0oYUN84qCX1C8Q==', '2025-06-02 15:11:20.104197'),
	(95, 'sr3dz5rl0gk9ng8zht2nvutdxs7d', 'direct 500.png', 'image/png', NULL, 'amazon', 144, 'tbBr5g5kVP7DKay52v2NnQ==', '2025-06-02 15:11:13.723544'),
	(96, 'cpxev5z8vn7b9mafzse5tmbfj3ef', 'direct 501.png', 'image/png', NULL, 'amazon', 144, 'b2EKthrkGFkzUeXxEjfXVQ==', '2025-06-02 15:11:13.740821'),
	(97, '6bkaia8llaf9gx4lp2j0og1y2s15', 'direct 502.png', 'image/png', NULL, 'amazon', 144, 'wTiYrjhMZKwZa3UirWYlOQ==', '2025-06-02 15:11:13.749319'),
	(98, '3xe9ijolxz6vmjffni85tit5ernp', 'direct 510.png', 'image/png', NULL, 'amazon', 156, 'K1SP3ngaeksl+M0FdZ2+mQ==', '2025-06-02 15:11:13.757711'),
	(99, 'oear5bzv9k0ttzgddy6mz9ya1ebt', 'direct 511.png', 'image/png', NULL, 'amazon', 145, 'q8FaRfHJXagkz2pNm5LXDQ==', '2025-06-02 15:11:13.826929'),
	(100, 'gf0u4htbjv2hnu2ngm8d5j4jrr4w', 'direct 512.png', 'image/png', NULL, 'amazon', 145, 'wCIbGTmHwmRfGC8n7mrr4g==', '2025-06-02 15:11:13.879139'),
	(101, 'q2jit077oefabb36d7ih7vw5bhd8', 'direct 513.png', 'image/png', NULL, 'amazon', 145, 'q3ai+z0PWk9vfGLOzOQIMw==', '2025-06-02 15:11:13.966492'),
	(102, 'lmf69eiof2x0yij14s0hjw9wsmj1', 'direct 520.png', 'image/png', NULL, 'amazon', 144, 'eFKrsLTTMgPPZeCZOYIPyg==', '2025-06-02 15:11:14.08733'),
	(105, 'jhegr1z08xgtoco8s2ulkvpmtiec', 'Fötø 601.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 144, 'qBIQUoTTl7aVv83NS01CfA==', '2025-06-02 15:11:20.709829'),
	(106, 'uv2fztj7v4p05y52ae3idaryntu2', 'Fötø 602.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 144, 'Ni4iQoc3BwJN0LI5Jx1xiw==', '2025-06-02 15:11:21.037595'),
	(108, 'd34ntf83p1mr93dx90q5r3olo50j', 'Fötø 604.png', 'image/png', '{"identified":true,"width":60,"height":40,"analyzed":true}', 'amazon', 144, 'NjrhuVoE8VMuCfkktTqFDg==', '2025-06-02 15:11:22.024098');
INSERT INTO public.active_storage_blobs VALUES
	(109, 'k2i0wz59ii70e20isg2vk1tfaajz', 'Fötø 650.png', 'image/png', '{"identified":true}', 'amazon', 144, 't/FHrSYc2S2Ra8H2lWy3bQ==', '2025-06-02 15:11:22.489413');
INSERT INTO public.active_storage_variant_records VALUES
	(1, 1, 'pMLe9OnT/1jUfCPPrYXNQpageME='),
	(2, 1, 'LSrCN6dvdszaPL3g/NIX1gv7fSs='),
	(3, 4, 'pMLe9OnT/1jUfCPPrYXNQpageME='),
	(4, 4, 'LSrCN6dvdszaPL3g/NIX1gv7fSs='),
	(5, 7, 'pMLe9OnT/1jUfCPPrYXNQpageME='),
	(6, 7, 'LSrCN6dvdszaPL3g/NIX1gv7fSs='),
	(7, 10, 'pMLe9OnT/1jUfCPPrYXNQpageME='),
	(8, 10, 'LSrCN6dvdszaPL3g/NIX1gv7fSs='),
	(9, 13, 'pMLe9OnT/1jUfCPPrYXNQpageME='),
	(10, 13, 'LSrCN6dvdszaPL3g/NIX1gv7fSs='),
	(11, 16, 'pMLe9OnT/1jUfCPPrYXNQpageME='),
	(12, 16, 'LSrCN6dvdszaPL3g/NIX1gv7fSs='),
	(13, 19, 'pMLe9OnT/1jUfCPPrYXNQpageME='),
	(14, 19, 'LSrCN6dvdszaPL3g/NIX1gv7fSs='),
	(15, 22, 'pMLe9OnT/1jUfCPPrYXNQpageME='),
	(16, 22, 'LSrCN6dvdszaPL3g/NIX1gv7fSs='),
	(17, 25, 'pMLe9OnT/1jUfCPPrYXNQpageME='),
	(18, 25, 'LSrCN6dvdszaPL3g/NIX1gv7fSs='),
	(19, 28, 'pMLe9OnT/1jUfCPPrYXNQpageME='),
	(20, 28, 'LSrCN6dvdszaPL3g/NIX1gv7fSs='),
	(21, 31, 'pMLe9OnT/1jUfCPPrYXNQpageME='),
	(22, 31, 'LSrCN6dvdszaPL3g/NIX1gv7fSs='),
	(25, 37, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(26, 38, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(27, 39, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(28, 43, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(29, 44, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(30, 45, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(31, 49, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(32, 50, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(33, 51, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(34, 55, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(35, 56, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(36, 57, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(37, 61, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(38, 62, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(39, 63, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(40, 67, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(41, 68, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(42, 69, 'UtUyZQiA1tz1ZIlgZf+Wj7fY+Tg='),
	(44, 102, 'pMLe9OnT/1jUfCPPrYXNQpageME=');
INSERT INTO public.ar_internal_metadata VALUES
	('environment', 'production', '2025-06-02 15:10:34.593187', '2025-06-02 15:10:34.593187');
INSERT INTO public.posts VALUES
	(3, 'post 2', '2025-06-02 15:11:01.76326', '2025-06-02 15:11:02.680415'),
	(4, 'post 3', '2025-06-02 15:11:03.918071', '2025-06-02 15:11:04.55003'),
	(5, 'post 4', '2025-06-02 15:11:05.994962', '2025-06-02 15:11:06.949963'),
	(6, 'post 5', '2025-06-02 15:11:08.399264', '2025-06-02 15:11:08.96266'),
	(1, 'post 0', '2025-06-02 15:10:57.698257', '2025-06-02 15:11:11.696085'),
	(2, 'post 1', '2025-06-02 15:10:59.477864', '2025-06-02 15:11:12.047375');
INSERT INTO public.schema_migrations VALUES
	('20170806125915'),
	('20180528164100');
INSERT INTO public.users VALUES
	(3, 'user 2', NULL, '2025-06-02 15:10:45.341285', '2025-06-02 15:11:10.327418'),
	(4, 'user 3', NULL, '2025-06-02 15:10:46.647217', '2025-06-02 15:11:10.390613'),
	(5, 'user 4', NULL, '2025-06-02 15:10:47.936942', '2025-06-02 15:11:10.446184'),
	(8, 'user 7', NULL, '2025-06-02 15:10:51.969705', '2025-06-02 15:11:10.636996'),
	(9, 'user 8', NULL, '2025-06-02 15:10:52.938791', '2025-06-02 15:11:10.704734'),
	(10, 'user 9', NULL, '2025-06-02 15:10:54.242646', '2025-06-02 15:11:10.780172'),
	(11, 'user 10', NULL, '2025-06-02 15:10:54.907356', '2025-06-02 15:11:10.823202'),
	(12, 'user 11', NULL, '2025-06-02 15:10:56.21623', '2025-06-02 15:11:10.98934'),
	(2, 'user 1', '2025-06-02 15:11:12.166682', '2025-06-02 15:10:44.319189', '2025-06-02 15:11:12.167353'),
	(1, 'user 0', NULL, '2025-06-02 15:10:41.721627', '2025-06-02 15:11:12.275483'),
	(13, 'without variants', NULL, '2025-06-02 15:11:12.295162', '2025-06-02 15:11:12.467574'),
	(14, 'untracked 0', NULL, '2025-06-02 15:11:19.892268', '2025-06-02 15:11:20.119336'),
	(15, 'untracked 1', NULL, '2025-06-02 15:11:20.697112', '2025-06-02 15:11:20.711695'),
	(16, 'untracked 2', NULL, '2025-06-02 15:11:20.998267', '2025-06-02 15:11:21.055044'),
	(17, 'untracked 3', NULL, '2025-06-02 15:11:21.551755', '2025-06-02 15:11:21.593685'),
	(18, 'untracked 4', NULL, '2025-06-02 15:11:21.99079', '2025-06-02 15:11:22.499188');
SELECT pg_catalog.setval('public.action_text_rich_texts_id_seq', 1, true);
SELECT pg_catalog.setval('public.active_storage_attachments_id_seq', 99, true);
SELECT pg_catalog.setval('public.active_storage_blobs_id_seq', 109, true);
SELECT pg_catalog.setval('public.active_storage_variant_records_id_seq', 44, true);
SELECT pg_catalog.setval('public.posts_id_seq', 7, true);
SELECT pg_catalog.setval('public.users_id_seq', 18, true);
ALTER TABLE ONLY public.action_text_rich_texts
    ADD CONSTRAINT action_text_rich_texts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.active_storage_attachments
    ADD CONSTRAINT active_storage_attachments_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.active_storage_blobs
    ADD CONSTRAINT active_storage_blobs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.active_storage_variant_records
    ADD CONSTRAINT active_storage_variant_records_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.ar_internal_metadata
    ADD CONSTRAINT ar_internal_metadata_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.posts
    ADD CONSTRAINT posts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (version);
ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (id);
CREATE UNIQUE INDEX index_action_text_rich_texts_uniqueness ON public.action_text_rich_texts USING btree (record_type, record_id, name);
CREATE INDEX index_active_storage_attachments_on_blob_id ON public.active_storage_attachments USING btree (blob_id);
CREATE UNIQUE INDEX index_active_storage_attachments_uniqueness ON public.active_storage_attachments USING btree (record_type, record_id, name, blob_id);
CREATE UNIQUE INDEX index_active_storage_blobs_on_key ON public.active_storage_blobs USING btree (key);
CREATE UNIQUE INDEX index_active_storage_variant_records_uniqueness ON public.active_storage_variant_records USING btree (blob_id, variation_digest);
ALTER TABLE ONLY public.active_storage_variant_records
    ADD CONSTRAINT fk_rails_993965df05 FOREIGN KEY (blob_id) REFERENCES public.active_storage_blobs(id);
ALTER TABLE ONLY public.active_storage_attachments
    ADD CONSTRAINT fk_rails_c3b3935057 FOREIGN KEY (blob_id) REFERENCES public.active_storage_blobs(id);
