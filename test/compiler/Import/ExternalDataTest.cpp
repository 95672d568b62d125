#include "ModelMaker.h"

using namespace divisi::compiler;

/// The classifier with fc.weight in a file.
static ModelMaker external(const std::string &location, const std::string &offset = "",
                           const std::string &length = "") {
  ModelMaker m = classifier();
  auto *tensor = m.model.mutable_graph()->mutable_initializer(0);
  tensor->clear_raw_data();
  tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  auto add = [&](const char *key, const std::string &value) {
    if (value.empty())
      return;
    auto *entry = tensor->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location);
  add("offset", offset);
  add("length", length);
  return m;
}

class ExternalDataTest : public ImportTest {
protected:
  void write(const std::filesystem::path &path, size_t bytes) {
    std::ofstream(path, std::ios::binary) << std::string(bytes, 'a');
  }
};

TEST_F(ExternalDataTest, isRead) {
  write(folder / "model" / "net.data", 100);
  auto model = import(external("net.data", "40", "60"));
  ASSERT_TRUE(mlir::succeeded(model)) << error();
  EXPECT_EQ(model->weights[0].bytes.size(), 60u);
  EXPECT_EQ(model->weights[0].bytes[0], 'a');
}
TEST_F(ExternalDataTest, mustBeThere) {
  EXPECT_EQ(failure(external("net.data")), "tensor 'fc.weight': its external data file 'net.data' is missing");
  options.weightsOptional = true;
  auto model = import(external("net.data"));
  ASSERT_TRUE(mlir::succeeded(model)) << error();
  EXPECT_TRUE(model->weights[0].bytes.empty());
}
TEST_F(ExternalDataTest, mustLieInTheFolder) {
  write(folder / "secret", 100);
  for (std::string path :
       {std::string("../secret"), (folder / "secret").string(), std::string("a/../../secret"), std::string("..")})
    EXPECT_HAS(failure(external(path)), "outside of the model's folder");
  std::filesystem::create_symlink(folder / "secret", folder / "model" / "link");
  EXPECT_HAS(failure(external("link")), "outside of the model's folder");
  std::filesystem::create_directory_symlink(folder, folder / "model" / "up");
  EXPECT_HAS(failure(external("up/secret")), "outside of the model's folder");
}
TEST_F(ExternalDataTest, mustBeLongEnough) {
  write(folder / "model" / "net.data", 100);
  EXPECT_HAS(failure(external("net.data", "41", "60")), "reaches beyond the end");
  EXPECT_HAS(failure(external("net.data", "9223372036854775807", "60")), "reaches beyond the end");
  EXPECT_HAS(failure(external("net.data", "-1", "60")), "has the offset '-1'");
  EXPECT_HAS(failure(external("net.data", "0", "61")), "it has 61 bytes of data");
  EXPECT_HAS(failure(external("")), "outside of the model's folder");
  std::filesystem::create_directory(folder / "model" / "folder");
  EXPECT_HAS(failure(external("folder")), "is missing");
}
