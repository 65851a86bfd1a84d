-- After the published schema of Supabase Storage, as far as it names files: supabase/storage,
-- migrations/tenant up to 0061, read at 496690d (multipart), 396bb16 (no direct deletes),
-- f6c1c3c (versions, which are not here yet); keys by src/storage/backend/adapter.ts at 1e97788.
-- Written by hand: names and rows are made up.
CREATE SCHEMA storage;
CREATE TABLE storage.migrations (
    id integer PRIMARY KEY,
    name character varying(100) NOT NULL UNIQUE,
    hash character varying(40) NOT NULL,
    executed_at timestamp without time zone DEFAULT now()
);
CREATE TABLE storage.buckets (
    id text PRIMARY KEY,
    name text NOT NULL UNIQUE,
    owner uuid,
    created_at timestamp with time zone DEFAULT now(),
    updated_at timestamp with time zone DEFAULT now(),
    public boolean DEFAULT false,
    avif_autodetection boolean DEFAULT false,
    file_size_limit bigint,
    allowed_mime_types text[],
    owner_id text
);
CREATE TABLE storage.objects (
    id uuid DEFAULT gen_random_uuid() PRIMARY KEY,
    bucket_id text REFERENCES storage.buckets,
    name text,
    owner uuid,
    created_at timestamp with time zone DEFAULT now(),
    updated_at timestamp with time zone DEFAULT now(),
    last_accessed_at timestamp with time zone DEFAULT now(),
    metadata jsonb,
    path_tokens text[] GENERATED ALWAYS AS (string_to_array(name, '/')) STORED,
    version text,
    owner_id text,
    user_metadata jsonb
);
CREATE UNIQUE INDEX bucketid_objname ON storage.objects (bucket_id, name);
CREATE TABLE storage.s3_multipart_uploads (
    id text PRIMARY KEY,
    in_progress_size bigint DEFAULT 0 NOT NULL,
    upload_signature text NOT NULL,
    bucket_id text NOT NULL REFERENCES storage.buckets,
    key text COLLATE "C" NOT NULL,
    version text NOT NULL,
    owner_id text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    user_metadata jsonb
);
CREATE FUNCTION storage.protect_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('storage.can_delete', true) IS DISTINCT FROM 'true' THEN
        RAISE insufficient_privilege USING MESSAGE = 'rows of storage go by its own API alone';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER protect_objects_delete BEFORE DELETE ON storage.objects
    FOR EACH STATEMENT EXECUTE FUNCTION storage.protect_delete();
CREATE TRIGGER protect_s3_multipart_uploads_delete BEFORE DELETE ON storage.s3_multipart_uploads
    FOR EACH STATEMENT EXECUTE FUNCTION storage.protect_delete();
CREATE TABLE public.profiles (
    id uuid PRIMARY KEY,
    full_name text,
    avatar_path text
);
INSERT INTO storage.migrations (id, name, hash) VALUES
	(0, 'create-migrations-table', '4d6d59291f0cde2e5738713a818d8962058765a6'),
	(13, 'add-version', 'ca7cff00d796c25410335b400141212b62c37663'),
	(21, 's3-multipart-uploads', '1129f34369aad80b891baf90d0d3bf16295d0691'),
	(50, 'prevent-direct-deletes', '0bf3f5fb85967f532f3ab3cc2d0b698d5c7e41ba');
INSERT INTO storage.buckets (id, name, public) VALUES
	('avatars', 'avatars', true),
	('documents', 'documents', false),
	('videos', 'videos', false);
INSERT INTO storage.objects (id, bucket_id, name, created_at, version, metadata) VALUES
	('ae97ba94-d0ed-482f-8f6d-05584ef8aa38', 'avatars', '6513270e-269e-4d37-b2a7-4de452e6b438/avatar.png', '2025-05-01 09:00:00+00', '92276658-1e27-41c0-8a6a-63ec24ede6a4', '{"size": 1200, "mimetype": "image/png", "eTag": "\"536b3216fdaeeb975729fae923d5a4fd\""}'),
	('ca02135e-92b1-43f2-8ede-0d7ac3baea9e', 'avatars', 'd23f0824-128b-4f33-8c5c-7fd0a6a3a450/avatar.png', '2025-05-02 09:00:00+00', '13deef86-ab10-41d0-b646-e1f40a097c97', '{"size": 1200, "mimetype": "image/png", "eTag": "\"aabfe228f219e9cb0eb53f16947ccf25\""}'),
	('6e36aab0-d1bc-42d9-a30d-977ee2257159', 'avatars', '9531985d-5d9d-49f8-9818-e811892f902b/avatar.png', '2025-05-03 09:00:00+00', '4720771f-8ca8-4811-a6d2-287672fdf202', '{"size": 1200, "mimetype": "image/png", "eTag": "\"8dbc74254770f58904dba41ecccc3fc1\""}'),
	('570dc195-1c24-42f9-a98c-b3a570ccec31', 'avatars', '36f675cc-81e7-4ef5-a8e2-5d940ed90475/avatar.png', '2025-05-04 09:00:00+00', '3571810a-fc13-4d0d-913d-b17d30cbc97d', '{"size": 1200, "mimetype": "image/png", "eTag": "\"13043b026c48bbf33feff9243a8f506b\""}'),
	('4c4f9b06-8732-4e25-8215-a82a06ec41ad', 'avatars', '6b0d549b-6f03-475a-9600-a35a099950d8/avatar.png', '2025-05-05 09:00:00+00', 'ea057543-8b0d-490b-b0a8-44e52587be6b', '{"size": 1200, "mimetype": "image/png", "eTag": "\"28b5b7a767c76fb008f86bebb2737f6a\""}'),
	('007d1034-d726-486b-9c3a-23cde67a9b75', 'avatars', '8d116ece-1738-47d9-bd9c-172411e20b8f/avatar.png', '2025-05-06 09:00:00+00', 'fc394724-9fc2-40a1-bb8f-2ab53451d013', '{"size": 1200, "mimetype": "image/png", "eTag": "\"fb23c6f5da2cec255404e4fb440034d6\""}'),
	('804c25d6-4aff-4cd1-b678-bc8d40783f0a', 'avatars', '90c192cf-d3ac-44af-8f21-ddb66cad4a26/avatar.png', '2025-05-07 09:00:00+00', '072a98d2-3606-4efc-9fb8-5c0dd37ee915', '{"size": 1200, "mimetype": "image/png", "eTag": "\"7a8d41bed440e50454f31af3176813e0\""}'),
	('f92e2339-9cce-4098-935b-6a437178ba0a', 'avatars', 'a170b338-3926-4059-b28c-105d1fb17c23/avatar.png', '2025-05-08 09:00:00+00', '1038f0b5-e998-40ee-a4dd-f9b9c28ee907', '{"size": 1200, "mimetype": "image/png", "eTag": "\"68ef786e4d3cea27d26934b484e73cf5\""}'),
	('fe7b8ae4-6e78-46a4-b4d1-9ec12955d6f0', 'avatars', '0fd630f1-f29d-4da9-953f-48f1a09f76b5/avatar.png', '2025-05-09 09:00:00+00', '3945336b-d51b-4815-aaf7-19f3fd68373b', '{"size": 1200, "mimetype": "image/png", "eTag": "\"cad6ba2b0aee0ca923732881584d8c4f\""}'),
	('2eefa279-b02e-4d8d-8cb1-c51d0eba0ea8', 'avatars', '0cb1e29c-658c-4a14-95e6-0af593bd04cf/avatar.png', '2025-05-10 09:00:00+00', '4770a087-16e6-4ec3-93b9-7377b34e8ece', '{"size": 1200, "mimetype": "image/png", "eTag": "\"d2802827283e0ad84173581569969e58\""}'),
	('04b8157d-03ed-4920-8975-8340401d68fb', 'avatars', '8e81973e-0bec-47b0-b898-d190f9ebdacc/avatar.png', '2025-05-11 09:00:00+00', 'fe977c56-04a6-4651-8dbd-e74758d50f1b', '{"size": 1200, "mimetype": "image/png", "eTag": "\"6f7e3dfc967a64cb14028d512c9791e5\""}'),
	('54348156-f637-4468-9d38-5e064363e5d9', 'avatars', '6b4cb242-4a23-4596-a217-beaddbc496cb/avatar.png', '2025-05-12 09:00:00+00', '00ed6b02-7221-4fdc-84df-96ff28541424', '{"size": 1200, "mimetype": "image/png", "eTag": "\"a7196b50ac2f86702824c1c099724caf\""}'),
	('d329d65c-0b35-41de-a50e-7b34a4aa07b4', 'documents', '6513270e-269e-4d37-b2a7-4de452e6b438/contracts/offer 0 (signed).pdf', '2025-05-13 09:00:00+00', '9e6397d4-b962-45d3-88bf-cbcf26433798', '{"size": 1200, "mimetype": "application/pdf", "eTag": "\"d4072014b3ce107f80e222f828767efc\""}'),
	('9df2025f-0bf7-44bd-8458-272f498dbfa8', 'documents', 'd23f0824-128b-4f33-8c5c-7fd0a6a3a450/contracts/offer 1 (signed).pdf', '2025-05-14 09:00:00+00', 'af06bcf7-e914-47db-baa0-68f113a5397f', '{"size": 1200, "mimetype": "application/pdf", "eTag": "\"624a8940f1f836f99eee3692f09e2e8c\""}'),
	('171e1a8c-94db-4f8f-9319-d42435f10300', 'documents', '9531985d-5d9d-49f8-9818-e811892f902b/contracts/offer 2 (signed).pdf', '2025-05-15 09:00:00+00', 'ee379c65-f212-41e4-aaa3-556c35b7e448', '{"size": 1200, "mimetype": "application/pdf", "eTag": "\"48b483b7ffc050fec94dbca3a0aac360\""}'),
	('63e19869-6495-4dc2-90a2-5b195f49f0fc', 'documents', '36f675cc-81e7-4ef5-a8e2-5d940ed90475/contracts/offer 3 (signed).pdf', '2025-05-16 09:00:00+00', '40d28406-4a32-4e2d-bd6a-996de6cd10f1', '{"size": 1200, "mimetype": "application/pdf", "eTag": "\"2bd818319478da6bd0c621de49f145fd\""}'),
	('a71f11b2-f9ee-4bc8-bd1e-6912bd313bee', 'documents', '6b0d549b-6f03-475a-9600-a35a099950d8/contracts/offer 4 (signed).pdf', '2025-05-17 09:00:00+00', '41785bc6-4c3a-46fc-8820-823157fa49e5', '{"size": 1200, "mimetype": "application/pdf", "eTag": "\"8c79fc35526f7eaed46725a2a7b860dc\""}'),
	('c08a58d7-5694-4a7a-852e-704d607a4732', 'documents', '8d116ece-1738-47d9-bd9c-172411e20b8f/contracts/offer 5 (signed).pdf', '2025-05-18 09:00:00+00', '35c2e229-862f-4231-beef-67fb69f44612', '{"size": 1200, "mimetype": "application/pdf", "eTag": "\"1f8b46287cced9041dff02cee737443e\""}'),
	('3b8a27ba-202a-46fa-8844-b8fd0059865a', 'documents', '90c192cf-d3ac-44af-8f21-ddb66cad4a26/contracts/offer 6 (signed).pdf', '2025-05-19 09:00:00+00', '0a1fb43b-c6e0-473a-8d2f-29e715c2c81a', '{"size": 1200, "mimetype": "application/pdf", "eTag": "\"1948d33296c87009e8a7f770d9106fd2\""}'),
	('7e318ad6-3a0e-46e1-9ec6-9be3ecd7570b', 'documents', 'a170b338-3926-4059-b28c-105d1fb17c23/contracts/offer 7 (signed).pdf', '2025-05-20 09:00:00+00', '6ca06496-aad7-47c0-ba53-c17641db898e', '{"size": 1200, "mimetype": "application/pdf", "eTag": "\"1adbc60926f6967e7893f57fd14c1604\""}'),
	('e5ee4c91-731b-4c41-a4b0-bb142f217e72', 'documents', '0fd630f1-f29d-4da9-953f-48f1a09f76b5/contracts/offer 8 (signed).pdf', '2025-05-21 09:00:00+00', '0f650638-b5b9-4af3-8d45-6be06a56aac3', '{"size": 1200, "mimetype": "application/pdf", "eTag": "\"a325a65e19cbae530282bd36cb9d21f6\""}'),
	('bcc0fd98-5d3f-49ce-92c4-641b316a2a12', 'documents', '0cb1e29c-658c-4a14-95e6-0af593bd04cf/contracts/offer 9 (signed).pdf', '2025-05-22 09:00:00+00', '7243d47c-eb64-45c4-8aa1-a59c5f6a35d9', '{"size": 1200, "mimetype": "application/pdf", "eTag": "\"f0d7c1c1e21862ab8a18a8902073fec8\""}'),
	('2ed51b12-7f1d-490e-ad97-ec7621f91a99', 'documents', 'handbook/2025/rules & dates.pdf', '2025-05-23 09:00:00+00', '7e544d56-d096-4fd6-ae10-6c0ee9de0479', '{"size": 1200, "mimetype": "image/png", "eTag": "\"0947aaeb26c57d21fa5d328263dfe574\""}'),
	('89df5e79-bf7b-4c6c-bc24-96ebac9261f1', 'documents', '.emptyFolderPlaceholder', '2025-05-24 09:00:00+00', 'e429c87c-9ecc-4b5f-b5ff-199d6ab6114f', '{"size": 1200, "mimetype": "image/png", "eTag": "\"39988b886e7577496a2c8773e130f7eb\""}'),
	('3b9edacb-4b2e-4245-a07b-59d80a5527a2', 'documents', 'old/scan0.pdf', '2025-05-25 09:00:00+00', NULL, '{"size": 1200, "mimetype": "image/png", "eTag": "\"31662b5e803b61ba4168160adb59261f\""}'),
	('687dd512-1032-488d-bbc7-1df38c4caa83', 'documents', 'old/scan1.pdf', '2025-05-26 09:00:00+00', NULL, '{"size": 1200, "mimetype": "image/png", "eTag": "\"3c425c8d99d19bdd0b6cc60d5d32cbe5\""}'),
	('8d323d9e-0d3b-48ee-83cc-2f9b21460c5a', 'documents', 'old/scan2.pdf', '2025-05-27 09:00:00+00', NULL, '{"size": 1200, "mimetype": "image/png", "eTag": "\"4c2b54b95523cf6941fa1c257c6f561c\""}'),
	('3f3f4072-2643-4a8e-9f80-a4e85bf508a0', 'videos', 'talks/talk0.mp4', '2025-05-28 09:00:00+00', '62320fa3-280f-405d-8494-9aabf044c032', '{"size": 1200, "mimetype": "video/mp4", "eTag": "\"611a3ce9d97dcbee500fe7ee5fc324bd\""}'),
	('0a6fb154-a837-4dcd-8299-ed6e811c8fa7', 'videos', 'talks/talk1.mp4', '2025-05-01 09:00:00+00', '7124c205-cd62-4a7f-977a-83345d866b34', '{"size": 1200, "mimetype": "video/mp4", "eTag": "\"142a21c402364f9572b85a8e48f687ab\""}'),
	('4737fed1-efb8-4825-a2f6-5e3629465388', 'videos', 'talks/talk2.mp4', '2025-05-02 09:00:00+00', '67498314-2e9d-4e73-b2ed-df6f096de421', '{"size": 1200, "mimetype": "video/mp4", "eTag": "\"ac5831be38cb8cb4ba2e751989a01749\""}'),
	('0c3b1266-e542-453d-9d35-9777833edd4b', 'videos', 'talks/talk3.mp4', '2025-05-03 09:00:00+00', '6aed8872-6ea6-405e-a028-80569db59658', '{"size": 1200, "mimetype": "video/mp4", "eTag": "\"4f71010b93b7d946bf54074e3248c801\""}');
INSERT INTO storage.s3_multipart_uploads (id, bucket_id, key, version, in_progress_size, upload_signature) VALUES
	('upload-0', 'videos', 'talks/long0.mp4', 'e486737d-8ff4-4f93-9225-3c87a51b453f', 5242880, 'c2lnbmVk'),
	('upload-1', 'videos', 'talks/long1.mp4', '9416c610-a546-4f6d-983f-d97359af6769', 5242880, 'c2lnbmVk');
INSERT INTO public.profiles (id, full_name, avatar_path) VALUES
	('6513270e-269e-4d37-b2a7-4de452e6b438', 'Person 0', '6513270e-269e-4d37-b2a7-4de452e6b438/avatar.png'),
	('d23f0824-128b-4f33-8c5c-7fd0a6a3a450', 'Person 1', 'd23f0824-128b-4f33-8c5c-7fd0a6a3a450/avatar.png'),
	('9531985d-5d9d-49f8-9818-e811892f902b', 'Person 2', '9531985d-5d9d-49f8-9818-e811892f902b/avatar.png'),
	('36f675cc-81e7-4ef5-a8e2-5d940ed90475', 'Person 3', '36f675cc-81e7-4ef5-a8e2-5d940ed90475/avatar.png'),
	('6b0d549b-6f03-475a-9600-a35a099950d8', 'Person 4', '6b0d549b-6f03-475a-9600-a35a099950d8/avatar.png'),
	('8d116ece-1738-47d9-bd9c-172411e20b8f', 'Person 5', '8d116ece-1738-47d9-bd9c-172411e20b8f/avatar.png'),
	('90c192cf-d3ac-44af-8f21-ddb66cad4a26', 'Person 6', '90c192cf-d3ac-44af-8f21-ddb66cad4a26/avatar.png'),
	('a170b338-3926-4059-b28c-105d1fb17c23', 'Person 7', 'a170b338-3926-4059-b28c-105d1fb17c23/avatar.png'),
	('0fd630f1-f29d-4da9-953f-48f1a09f76b5', 'Person 8', '0fd630f1-f29d-4da9-953f-48f1a09f76b5/avatar.png'),
	('0cb1e29c-658c-4a14-95e6-0af593bd04cf', 'Person 9', '0cb1e29c-658c-4a14-95e6-0af593bd04cf/avatar.png'),
	('8e81973e-0bec-47b0-b898-d190f9ebdacc', 'Person 10', '8e81973e-0bec-47b0-b898-d190f9ebdacc/avatar.png'),
	('6b4cb242-4a23-4596-a217-beaddbc496cb', 'Person 11', '6b4cb242-4a23-4596-a217-beaddbc496cb/avatar.png');
