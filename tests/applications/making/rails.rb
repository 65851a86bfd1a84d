# A Rails application in one file: users with an avatar and a CV in another service, posts with
# photos, a cover and rich text. What its users did, and what went wrong, by the step.
ENV["RAILS_ENV"] = "production"
require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "active_job/railtie"
require "active_storage/engine"
require "action_text/engine"
require "json"
require "vips"

STEP = ARGV.fetch(0)
WORK = ENV.fetch("WORK")

class Letters < Rails::Application
  service = ->(bucket) {
    { "service" => "S3", "access_key_id" => ENV.fetch("S3_KEY"), "secret_access_key" => ENV.fetch("S3_SECRET"),
      "region" => ENV.fetch("S3_REGION"), "endpoint" => ENV.fetch("S3_ENDPOINT"), "bucket" => bucket, "force_path_style" => true }
  }
  config.root = WORK
  config.load_defaults 6.1
  config.eager_load = false
  config.secret_key_base = "0" * 64
  config.hosts.clear
  config.logger = Logger.new("#{WORK}/rails.log")
  config.active_job.queue_adapter = :inline
  config.active_storage.service = :amazon
  config.active_storage.variant_processor = :vips
  config.active_storage.track_variants = STEP != "untracked"
  config.active_storage.service_configurations = {
    "amazon" => service.(ENV.fetch("S3_BUCKET")), "archive" => service.("rails-archive")
  }
end
Letters.initialize!

class User < ActiveRecord::Base
  has_one_attached :avatar
  has_one_attached :cv, service: :archive
end

class Post < ActiveRecord::Base
  has_many_attached :photos
  has_one_attached :cover, dependent: false
  has_rich_text :content
end

def image(number, format = ".png")
  Vips::Image.black(60, 40).add([number * 7 % 255, number * 13 % 255, 80]).cast("uchar").write_to_buffer(format)
end

def attach(to, number, format = ".png")
  to.attach(io: StringIO.new(image(number, format)), filename: "Fötø #{number}#{format}",
            content_type: format == ".png" ? "image/png" : "image/jpeg")
end

def blob(number, **more)
  ActiveStorage::Blob.create_and_upload!(io: StringIO.new(image(number)), filename: "#{number}.png",
                                         content_type: "image/png", **more)
end

def vary(attached, *sizes)
  sizes.each { |size| attached.variant(resize_to_limit: [size, size]).processed }
end

# All keys that hang on a blob: itself, its tracked variants, its untracked ones.
def family(blob)
  service = ActiveStorage::Blob.services.fetch(:amazon)
  below = service.client.client.list_objects_v2(bucket: service.bucket.name, prefix: "variants/#{blob.key}/")
  [blob.key, *blob.variant_records.map { |record| record.image.blob.key }, *below.contents.map(&:key)]
end

# A queue that forgets: a Redis that was emptied.
def without_a_queue
  kept = ActiveJob::Base.queue_adapter
  ActiveJob::Base.queue_adapter = :test
  yield
ensure
  ActiveJob::Base.queue_adapter = kept
end

# What the form of the browser asks for before it sends its bytes.
def direct_upload(number, send_bytes: true)
  body = image(number)
  made = ActiveStorage::Blob.create_before_direct_upload!(
    filename: "direct #{number}.png", byte_size: body.bytesize, checksum: Digest::MD5.base64digest(body), content_type: "image/png")
  made.service.upload(made.key, StringIO.new(body)) if send_bytes
  made
end

if STEP == "make"
  ActiveRecord::Schema.define do
    create_table(:users) { |t| t.string :name; t.datetime :deleted_at; t.timestamps }
    create_table(:posts) { |t| t.string :title; t.timestamps }
  end
  %w[activestorage actiontext].each do |gem|
    folder = Gem::Specification.find_by_name(gem).gem_dir + "/db/migrate"
    folder = "/usr/share/rails/#{gem}/db/migrate" unless File.directory?(folder)
    ActiveRecord::MigrationContext.new(folder, ActiveRecord::SchemaMigration).migrate
  end
  exit
end

dead = File.exist?("#{WORK}/dead.json") ? JSON.parse(File.read("#{WORK}/dead.json")) : { "orphans" => {}, "reservations" => {}, "kept" => {} }
orphans, reservations, kept = dead.values_at("orphans", "reservations", "kept")

if STEP == "tracked"
  users = (0...12).map { |n| User.create!(name: "user #{n}").tap { |user| attach(user.avatar, n); vary(user.avatar, 30, 20) } }
  posts = (0...6).map do |n|
    Post.create!(title: "post #{n}").tap do |post|
      3.times { |i| attach(post.photos, 100 + n * 3 + i, ".jpg") }
      post.photos.each { |photo| vary(photo, 25) }
    end
  end
  users.first(15).each { |user| user.cv.attach(io: StringIO.new("%PDF-1.4 #{user.id}"), filename: "cv.pdf", content_type: "application/pdf") }
  users[11].update!(avatar: direct_upload(200).signed_id)
  in_text = blob(300)
  posts[0].update!(content: %(<div>a letter <action-text-attachment sgid="#{in_text.attachable_sgid}"></action-text-attachment></div>))
  posts[1].cover.attach(blob(301, key: "tenants/7/brand/logo 1.png"))
  users[1].update!(deleted_at: Time.now) # a soft delete: its files stay

  without_a_queue do
    kept["replaced and the purge was lost, with variants"] = family(users[0].avatar.blob)
    attach(users[0].avatar, 400)
    bare = User.create!(name: "without variants")
    attach(bare.avatar, 401)
    reservations["replaced and the purge was lost"] = family(bare.avatar.blob)
    attach(bare.avatar, 402)
    kept["destroyed and the purge was lost, with variants"] = family(users[5].avatar.blob)
    users[5].cv.purge
    users[5].destroy!
  end
  kept["the record was deleted by SQL, its attachment stays"] = family(users[6].avatar.blob)
  User.where(id: users[6].id).delete_all
  post = Post.create!(title: "gone")
  attach(post.cover, 410)
  reservations["a cover of dependent: false"] = family(post.cover.blob)
  post.destroy!
  row = blob(411)
  orphans["the blob's row was deleted by SQL"] = family(row)
  ActiveStorage::Blob.where(id: row.id).delete_all
  row = blob(412)
  vary(row, 30)
  orphans["the rows of a blob and of its variants were deleted by SQL"] = family(row)
  variants = row.variant_records.to_a
  ids = variants.map { |variant| variant.image.blob.id } + [row.id]
  ActiveStorage::Attachment.where(record_type: "ActiveStorage::VariantRecord", record_id: variants.map(&:id)).delete_all
  ActiveStorage::VariantRecord.where(blob_id: row.id).delete_all
  ActiveStorage::Blob.where(id: ids).delete_all
  3.times { |i| direct_upload(500 + i, send_bytes: false) }
  reservations["uploaded directly and never attached"] = (0...4).flat_map { |i| family(direct_upload(510 + i)) }
  looked_at = direct_upload(520)
  vary(looked_at, 30)
  kept["uploaded directly and never attached, with a variant for the form"] = family(looked_at)
else
  users = (0...5).map { |n| User.create!(name: "untracked #{n}").tap { |user| attach(user.avatar, 600 + n); vary(user.avatar, 30, 20) } }
  gone = users[3].avatar.blob
  orphans["the row of a blob with untracked variants was deleted by SQL"] = family(gone)
  users[3].avatar_attachment.delete
  ActiveStorage::Blob.where(id: gone.id).delete_all
  without_a_queue do
    # Its variants have no row of their own: they go with it, or after it.
    first, *others = family(users[4].avatar.blob)
    reservations["replaced and the purge was lost, with untracked variants"] = [first]
    orphans["untracked variants of a blob whose purge was lost"] = others
    attach(users[4].avatar, 650)
  end
end
File.write("#{WORK}/dead.json", JSON.generate(dead))
