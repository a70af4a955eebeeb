// The loader of exported bundles in one file; tensorgrad_bundle.h says how to use it.
#define VK_NO_PROTOTYPES
#include "tensorgrad_bundle.h"

#include <dlfcn.h>
#include <vulkan/vulkan.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

using std::string;

// ---- JSON ----------------------------------------------------------------------------------------------

struct Json {
  enum Kind { null, boolean, number, text, list, object } kind = null;
  int64_t integer = 0;
  string word;
  std::vector<Json> items;
  std::map<string, Json> members;

  const Json& operator[](const char* key) const {
    static const Json none;
    auto found = members.find(key);
    return found == members.end() ? none : found->second;
  }
  bool has(const char* key) const { return members.count(key) != 0; }
};

/// Reads the subset the exporter writes: integers, no \u beyond ASCII.
class JsonReader {
 public:
  explicit JsonReader(const string& text) : text_(text) {}
  bool read(Json& out) { return value(out, 0) && (blank(), at_ == text_.size()); }

 private:
  void blank() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(char c) {
    blank();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    return ++at_, true;
  }
  bool word(const char* expected) {
    size_t length = std::strlen(expected);
    if (text_.compare(at_, length, expected) != 0) return false;
    return at_ += length, true;
  }
  bool quoted(string& out) {
    if (!take('"')) return false;
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\\') {
        if (at_ >= text_.size()) return false;
        c = text_[at_++];
        if (c == 'n') c = '\n';
        if (c == 't') c = '\t';
        if (c == 'u') {
          c = static_cast<char>(std::strtol(text_.substr(at_, 4).c_str(), nullptr, 16));
          at_ += 4;
        }
      }
      out += c;
    }
    return at_++ < text_.size();
  }
  bool value(Json& out, int depth) {
    blank();
    if (depth > 32 || at_ >= text_.size()) return false;
    char c = text_[at_];
    if (c == '{') return object(out, depth);
    if (c == '[') return list(out, depth);
    if (c == '"') return out.kind = Json::text, quoted(out.word);
    if (c == 't' || c == 'f')
      return out.kind = Json::boolean, out.integer = c == 't', word(c == 't' ? "true" : "false");
    if (c == 'n') return word("null");
    char* end = nullptr;
    out.kind = Json::number;
    out.integer = std::strtoll(text_.c_str() + at_, &end, 10);
    size_t length = static_cast<size_t>(end - (text_.c_str() + at_));
    return at_ += length, length > 0;
  }
  bool list(Json& out, int depth) {
    out.kind = Json::list;
    if (!take('[')) return false;
    if (take(']')) return true;
    do {
      out.items.emplace_back();
      if (!value(out.items.back(), depth + 1)) return false;
    } while (take(','));
    return take(']');
  }
  bool object(Json& out, int depth) {
    out.kind = Json::object;
    if (!take('{')) return false;
    if (take('}')) return true;
    do {
      string key;
      if (!quoted(key) || !take(':') || !value(out.members[key], depth + 1)) return false;
    } while (take(','));
    return take('}');
  }

  const string& text_;
  size_t at_ = 0;
};

// ---- XXH64 (the algorithm of xxhash.com, seed 0): what the manifest keeps of every file ------------------

uint64_t xxh64(const string& bytes) {
  constexpr uint64_t p1 = 0x9E3779B185EBCA87u, p2 = 0xC2B2AE3D27D4EB4Fu, p3 = 0x165667B19E3779F9u,
                     p4 = 0x85EBCA77C2B2AE63u, p5 = 0x27D4EB2F165667C5u;
  auto turn = [](uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); };
  auto round = [&](uint64_t sum, uint64_t word) { return turn(sum + word * p2, 31) * p1; };
  auto load = [](const char* from, size_t count) {
    uint64_t word = 0;
    for (size_t i = 0; i < count; ++i) word |= uint64_t(static_cast<unsigned char>(from[i])) << (8 * i);
    return word;
  };
  const char *p = bytes.data(), *end = p + bytes.size();
  uint64_t h = p5;
  if (bytes.size() >= 32) {
    uint64_t v[4] = {p1 + p2, p2, 0, uint64_t(0) - p1};
    for (; end - p >= 32; p += 32)
      for (int i = 0; i < 4; ++i) v[i] = round(v[i], load(p + 8 * i, 8));
    h = turn(v[0], 1) + turn(v[1], 7) + turn(v[2], 12) + turn(v[3], 18);
    for (uint64_t lane : v) h = (h ^ round(0, lane)) * p1 + p4;
  }
  h += bytes.size();
  for (; end - p >= 8; p += 8) h = turn(h ^ round(0, load(p, 8)), 27) * p1 + p4;
  for (; end - p >= 4; p += 4) h = turn(h ^ (load(p, 4) * p1), 23) * p2 + p3;
  for (; p < end; ++p) h = turn(h ^ (load(p, 1) * p5), 11) * p1;
  h = (h ^ (h >> 33)) * p2;
  h = (h ^ (h >> 29)) * p3;
  return h ^ (h >> 32);
}

string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

// ---- Vulkan --------------------------------------------------------------------------------------------

#define TGB_INSTANCE_FUNCTIONS(F)                                                           \
  F(DestroyInstance)                                                                        \
  F(EnumeratePhysicalDevices) F(GetPhysicalDeviceProperties2) F(GetPhysicalDeviceFeatures2) \
      F(GetPhysicalDeviceQueueFamilyProperties) F(GetPhysicalDeviceMemoryProperties)        \
          F(EnumerateDeviceExtensionProperties) F(CreateDevice) F(GetDeviceProcAddr)
#define TGB_DEVICE_FUNCTIONS(F)                                                                          \
  F(DestroyDevice)                                                                                       \
  F(GetDeviceQueue) F(CreateBuffer) F(DestroyBuffer) F(AllocateMemory) F(FreeMemory) F(BindBufferMemory) \
      F(GetBufferMemoryRequirements) F(MapMemory) F(CreateBufferView) F(DestroyBufferView)               \
          F(CreateShaderModule) F(DestroyShaderModule) F(CreateDescriptorSetLayout)                      \
              F(DestroyDescriptorSetLayout) F(CreatePipelineLayout) F(DestroyPipelineLayout)             \
                  F(CreateComputePipelines) F(DestroyPipeline) F(CreateDescriptorPool)                   \
                      F(DestroyDescriptorPool) F(AllocateDescriptorSets) F(UpdateDescriptorSets)         \
                          F(CreateCommandPool) F(DestroyCommandPool) F(AllocateCommandBuffers)           \
                              F(BeginCommandBuffer) F(EndCommandBuffer) F(CmdBindPipeline)               \
                                  F(CmdBindDescriptorSets) F(CmdDispatch) F(CmdPipelineBarrier)          \
                                      F(CmdFillBuffer) F(CmdCopyBuffer) F(CreateFence) F(DestroyFence)   \
                                          F(ResetFences) F(WaitForFences) F(QueueSubmit)

template <class T>
T typed(VkStructureType type) {
  T info{};
  info.sType = type;
  return info;
}

struct Range {
  string buffer;
  int64_t offset = 0, bytes = 0;
};
struct Placed {
  tgb_tensor shown{};
  string name, dtype;
  Range range;
  int64_t rows = 1, rowBytes = 0, pitchBytes = 0;  ///< of memory; shown.bytes is dense
  VkDeviceSize staged = 0;
};
struct Memory {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  int64_t bytes = 0;
};
struct Kernel {
  std::vector<VkFormat> formats;  ///< VK_FORMAT_UNDEFINED is a storage buffer
  VkDescriptorSetLayout set = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkPipeline pipeline = VK_NULL_HANDLE;
};

constexpr VkPipelineStageFlags kWork = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
constexpr VkAccessFlags kWrites = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
constexpr VkAccessFlags kAll = kWrites | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT;
constexpr int64_t kChunk = int64_t(16) << 20;  // bytes of weights uploaded at once

thread_local string openError;

}  // namespace

struct tgb_bundle {
  string folder, error, deviceName;
  Json manifest;
  std::vector<Placed> inputs, results;
  std::map<string, Kernel> kernels;
  std::map<string, Memory> buffers;
  Memory staging;
  char* mapped = nullptr;

  void* library = nullptr;
  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  uint32_t family = 0;
  VkPhysicalDeviceLimits limits{};
  VkPhysicalDeviceMemoryProperties heaps{};
  VkPhysicalDeviceType type{};
  VkCommandPool commandPool = VK_NULL_HANDLE;
  VkCommandBuffer once = VK_NULL_HANDLE, program = VK_NULL_HANDLE;
  VkDescriptorPool descriptorPool = VK_NULL_HANDLE;
  VkFence fence = VK_NULL_HANDLE;
  std::vector<VkBufferView> views;
  std::set<uint32_t> capabilities;  ///< of all kernels' SPIR-V

#define TGB_MEMBER(name) PFN_vk##name name = nullptr;
  TGB_INSTANCE_FUNCTIONS(TGB_MEMBER)
  TGB_DEVICE_FUNCTIONS(TGB_MEMBER)
#undef TGB_MEMBER

  ~tgb_bundle();
  bool open(const string& device);
  bool run(const tgb_input* in, int inCount, const tgb_output* out, int outCount);

 private:
  bool fail(const string& why) { return error = why, false; }
  bool good(VkResult result, const string& doing) {
    return result == VK_SUCCESS ||
           fail(doing + " failed on " + deviceName + ": VkResult " + std::to_string(result));
  }
  bool readFile(const string& name, string& out);
  bool readHashed(const Json& entry, string& out);
  bool readManifest();
  bool readPlaced(const Json& list, std::vector<Placed>& out);
  bool range(const Json& entry, Range& out);
  bool createInstance();
  bool chooseDevice(const string& wanted);
  bool checkLimits();
  bool createDevice();
  bool createBuffer(Memory& out, int64_t bytes, bool host);
  bool createBuffers();
  bool upload(const string& weights);
  bool createKernel(const Json& entry, const string& code);
  bool bind(const Json& dispatch, const Kernel& kernel, VkDescriptorSet set);
  bool record();
  bool begin(VkCommandBuffer commands, VkCommandBufferUsageFlags usage);
  bool submit(VkCommandBuffer commands, const char* doing);
  void barrier(VkCommandBuffer commands, VkPipelineStageFlags from, VkAccessFlags wrote,
               VkPipelineStageFlags to, VkAccessFlags use);
};

// ---- Files ---------------------------------------------------------------------------------------------

bool tgb_bundle::readFile(const string& name, string& out) {
  string path = folder + "/" + name;
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail("cannot read " + path + ": " + std::strerror(errno));
  out.assign(std::istreambuf_iterator<char>(file), {});
  return !file.bad() || fail("cannot read " + path);
}

bool tgb_bundle::readHashed(const Json& entry, string& out) {
  const string& name = entry["file"].word;
  if (name.empty() || name.find("..") != string::npos) return fail("manifest.json names a file badly");
  if (!readFile(name, out)) return false;
  if (int64_t(out.size()) != entry["bytes"].integer)
    return fail(folder + "/" + name + " has " + std::to_string(out.size()) + " bytes; the manifest says " +
                std::to_string(entry["bytes"].integer));
  if (hex(xxh64(out)) != entry["xxh64"].word)
    return fail(folder + "/" + name + " is damaged: its hash is not the manifest's");
  return true;
}

bool tgb_bundle::range(const Json& entry, Range& out) {
  out = {entry["buffer"].word, entry["offset"].integer, entry["bytes"].integer};
  auto found = buffers.find(out.buffer);
  if (found != buffers.end() && out.offset >= 0 && out.bytes > 0 && out.offset <= found->second.bytes &&
      out.bytes <= found->second.bytes - out.offset)
    return true;
  return fail("manifest.json is damaged: a range lies outside its buffer");
}

bool tgb_bundle::readPlaced(const Json& list, std::vector<Placed>& out) {
  for (const Json& entry : list.items) {
    Placed placed;
    placed.name = entry["name"].word;
    placed.dtype = entry["dtype"].word;
    int64_t element = placed.dtype == "f16" ? 2 : 4, count = 1, last = 1;
    if (!range(entry, placed.range)) return false;
    for (const Json& extent : entry["shape"].items) {
      if (placed.shown.rank == TGB_MAX_RANK || extent.integer <= 0 || extent.integer > placed.range.bytes)
        return fail("manifest.json is damaged: a shape");
      placed.shown.shape[placed.shown.rank++] = last = extent.integer;
      count *= last;
    }
    int64_t pitch = entry["pitch"].integer ? entry["pitch"].integer : last;
    placed.rows = count / last;
    placed.rowBytes = last * element;
    placed.pitchBytes = pitch * element;
    placed.shown.bytes = uint64_t(count * element);
    if ((placed.rows - 1) * placed.pitchBytes + placed.rowBytes != placed.range.bytes)
      return fail("manifest.json is damaged: '" + placed.name + "' does not fill its bytes");
    out.push_back(placed);
  }
  return true;
}

bool tgb_bundle::readManifest() {
  string text;
  if (!readFile("manifest.json", text)) return false;
  if (!JsonReader(text).read(manifest)) return fail(folder + "/manifest.json is damaged: it is not JSON");
  if (manifest["format"].integer != 1)
    return fail(folder + "/manifest.json has a format this loader does not know");
  for (const Json& entry : manifest["buffers"].items)
    buffers[entry["name"].word].bytes = entry["bytes"].integer;
  if (!readPlaced(manifest["inputs"], inputs) || !readPlaced(manifest["results"], results)) return false;
  VkDeviceSize staged = 0;
  for (auto* list : {&inputs, &results})
    for (Placed& placed : *list) {
      placed.staged = staged;
      staged += VkDeviceSize((placed.range.bytes + 15) / 16 * 16);
      placed.shown.name = placed.name.c_str();
      placed.shown.dtype = placed.dtype.c_str();
    }
  staging.bytes = std::max(int64_t(staged), std::min(kChunk, buffers["persistent"].bytes));
  return true;
}

// ---- The device ----------------------------------------------------------------------------------------

bool tgb_bundle::createInstance() {
  library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail("libvulkan.so.1 cannot be loaded; install a Vulkan driver and loader");
  auto get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  auto create = get ? reinterpret_cast<PFN_vkCreateInstance>(get(nullptr, "vkCreateInstance")) : nullptr;
  if (!create) return fail("libvulkan.so.1 is no Vulkan loader");
  auto app = typed<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
  app.pApplicationName = "tensorgrad bundle";
  app.apiVersion = VK_API_VERSION_1_2;
  auto info = typed<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  info.pApplicationInfo = &app;
  deviceName = "the Vulkan loader";
  if (!good(create(&info, nullptr, &instance), "creating a Vulkan instance")) return false;
#define TGB_LOAD(name) name = reinterpret_cast<PFN_vk##name>(get(instance, "vk" #name));
  TGB_INSTANCE_FUNCTIONS(TGB_LOAD)
#undef TGB_LOAD
  return (EnumeratePhysicalDevices && GetPhysicalDeviceProperties2 && GetDeviceProcAddr) ||
         fail("the Vulkan loader is older than 1.2");
}

bool tgb_bundle::chooseDevice(const string& wanted) {
  auto lower = [](string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
  };
  uint32_t count = 0;
  EnumeratePhysicalDevices(instance, &count, nullptr);
  std::vector<VkPhysicalDevice> all(count);
  EnumeratePhysicalDevices(instance, &count, all.data());
  string known;
  int best = -1;
  for (uint32_t i = 0; i < count; ++i) {
    auto properties = typed<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
    GetPhysicalDeviceProperties2(all[i], &properties);
    const VkPhysicalDeviceProperties& p = properties.properties;
    known += (i ? ", " : "") + std::to_string(i) + ": " + p.deviceName;
    // In the order of preference: discrete, integrated, virtual, cpu, other.
    static constexpr int ranks[] = {1, 4, 5, 3, 2};
    int rank = p.deviceType <= VK_PHYSICAL_DEVICE_TYPE_CPU ? ranks[p.deviceType] : 1;
    bool any = wanted.empty() || wanted == "auto";
    bool fits = any || (wanted == "cpu" && p.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) ||
                wanted == std::to_string(i) || lower(p.deviceName).find(lower(wanted)) != string::npos;
    if (!fits || p.apiVersion < VK_API_VERSION_1_2 || rank <= best) continue;
    best = rank;
    physical = all[i];
    deviceName = p.deviceName;
    limits = p.limits;
    type = p.deviceType;
  }
  if (best >= 0) return true;
  return fail("no Vulkan 1.2 device is '" + (wanted.empty() ? "auto" : wanted) +
              "'; there are: " + (known.empty() ? "none" : known));
}

bool tgb_bundle::checkLimits() {
  const Json& needs = manifest["needs"];
  string over;
  auto atMost = [&](const char* what, uint64_t has) {
    if (uint64_t(needs[what].integer) > has)
      over += (over.empty() ? "" : ", ") + string(what) + " " + std::to_string(needs[what].integer) +
              " (the device: " + std::to_string(has) + ")";
  };
  atMost("max_invocations", limits.maxComputeWorkGroupInvocations);
  atMost("max_workgroup_x", limits.maxComputeWorkGroupSize[0]);
  atMost("max_grid", *std::min_element(limits.maxComputeWorkGroupCount, limits.maxComputeWorkGroupCount + 3));
  atMost("shared_bytes", limits.maxComputeSharedMemorySize);
  atMost("storage_range", limits.maxStorageBufferRange);
  atMost("texel_elements", limits.maxTexelBufferElements);
  atMost("bindings", std::min(limits.maxPerStageDescriptorStorageBuffers, limits.maxPerStageResources));
  VkDeviceSize coarsest =
      std::max(limits.minStorageBufferOffsetAlignment, limits.minTexelBufferOffsetAlignment);
  if (uint64_t(needs["alignment"].integer) < coarsest)
    over += (over.empty() ? "" : ", ") + string("alignment ") + std::to_string(needs["alignment"].integer) +
            " (the device: " + std::to_string(coarsest) + ")";
  return over.empty() || fail("the bundle needs more than " + deviceName + " offers: " + over +
                              "; export it with --target for that device");
}

/// Turns on the features that the kernels' SPIR-V asks for.
bool tgb_bundle::createDevice() {
  uint32_t count = 0;
  GetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  GetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
  while (family < count && !(families[family].queueFlags & VK_QUEUE_COMPUTE_BIT)) ++family;
  if (family == count) return fail(deviceName + " has no compute queue");
  GetPhysicalDeviceMemoryProperties(physical, &heaps);

  count = 0;
  EnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  EnumerateDeviceExtensionProperties(physical, nullptr, &count, extensions.data());
  const char* wanted = VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME;
  bool atomicsKnown =
      std::any_of(extensions.begin(), extensions.end(), [&](const VkExtensionProperties& each) {
        return !std::strcmp(each.extensionName, wanted);
      });
  struct Chain {
    VkPhysicalDeviceFeatures2 core =
        typed<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
    VkPhysicalDeviceVulkan11Features v11 =
        typed<VkPhysicalDeviceVulkan11Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
    VkPhysicalDeviceVulkan12Features v12 =
        typed<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomics =
        typed<VkPhysicalDeviceShaderAtomicFloatFeaturesEXT>(
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT);
    void link(bool withAtomics) {
      core.pNext = &v11;
      v11.pNext = &v12;
      v12.pNext = withAtomics ? &atomics : nullptr;
    }
  } has, use;
  has.link(atomicsKnown);
  GetPhysicalDeviceFeatures2(physical, &has.core);
  // By number of the SPIR-V specification.
  struct Feature {
    uint32_t capability;
    const char* name;
    VkBool32 offered;
    VkBool32* enable;
  } features[] = {{9, "f16 arithmetic", has.v12.shaderFloat16, &use.v12.shaderFloat16},
                  {11, "64-bit integers", has.core.features.shaderInt64, &use.core.features.shaderInt64},
                  {22, "16-bit integers", has.core.features.shaderInt16, &use.core.features.shaderInt16},
                  {4433, "f16 storage", has.v11.storageBuffer16BitAccess, &use.v11.storageBuffer16BitAccess},
                  {6033, "f32 atomic additions", has.atomics.shaderBufferFloat32AtomicAdd,
                   &use.atomics.shaderBufferFloat32AtomicAdd}};
  for (const Feature& each : features) {
    if (!capabilities.count(each.capability)) continue;
    if (!each.offered)
      return fail("the bundle needs " + string(each.name) + ", which " + deviceName + " lacks");
    *each.enable = VK_TRUE;
  }
  use.link(use.atomics.shaderBufferFloat32AtomicAdd);

  const float priority = 1;
  auto queueInfo = typed<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
  queueInfo.queueFamilyIndex = family;
  queueInfo.queueCount = 1;
  queueInfo.pQueuePriorities = &priority;
  auto info = typed<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
  info.pNext = &use.core;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queueInfo;
  info.enabledExtensionCount = use.atomics.shaderBufferFloat32AtomicAdd;
  info.ppEnabledExtensionNames = &wanted;
  if (!good(CreateDevice(physical, &info, nullptr, &device), "opening the device")) return false;
#define TGB_LOAD(name) name = reinterpret_cast<PFN_vk##name>(GetDeviceProcAddr(device, "vk" #name));
  TGB_DEVICE_FUNCTIONS(TGB_LOAD)
#undef TGB_LOAD
  GetDeviceQueue(device, family, 0, &queue);

  auto poolInfo = typed<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  poolInfo.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  poolInfo.queueFamilyIndex = family;
  if (!good(CreateCommandPool(device, &poolInfo, nullptr, &commandPool), "creating a command pool"))
    return false;
  auto commandsInfo = typed<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  commandsInfo.commandPool = commandPool;
  commandsInfo.commandBufferCount = 1;
  for (VkCommandBuffer* each : {&once, &program})
    if (!good(AllocateCommandBuffers(device, &commandsInfo, each), "creating commands")) return false;
  auto fenceInfo = typed<VkFenceCreateInfo>(VK_STRUCTURE_TYPE_FENCE_CREATE_INFO);
  return good(CreateFence(device, &fenceInfo, nullptr, &fence), "creating a fence");
}

bool tgb_bundle::createBuffer(Memory& out, int64_t bytes, bool host) {
  // Whole multiples of 256, so that a last vec4 texel may be read whole.
  out.bytes = std::max<int64_t>(256, (bytes + 255) / 256 * 256);
  auto info = typed<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  info.size = VkDeviceSize(out.bytes);
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT |
               VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (!good(CreateBuffer(device, &info, nullptr, &out.buffer), "creating a buffer")) return false;
  VkMemoryRequirements wanted;
  GetBufferMemoryRequirements(device, out.buffer, &wanted);
  const VkMemoryPropertyFlags mappable =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  // Results are read from cached memory many times faster.
  const VkMemoryPropertyFlags choices[2][2] = {{VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0},
                                               {mappable | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, mappable}};
  auto allocate = typed<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
  allocate.allocationSize = wanted.size;
  allocate.memoryTypeIndex = UINT32_MAX;
  for (VkMemoryPropertyFlags flags : choices[host])
    for (uint32_t i = 0; i < heaps.memoryTypeCount && allocate.memoryTypeIndex == UINT32_MAX; ++i)
      if ((wanted.memoryTypeBits >> i & 1) && (heaps.memoryTypes[i].propertyFlags & flags) == flags)
        allocate.memoryTypeIndex = i;
  if (allocate.memoryTypeIndex == UINT32_MAX) return fail(deviceName + " has no memory of the kind needed");
  if (AllocateMemory(device, &allocate, nullptr, &out.memory) != VK_SUCCESS)
    return fail(deviceName + " has not enough memory: a buffer needs " + std::to_string(out.bytes) +
                " bytes");
  return good(BindBufferMemory(device, out.buffer, out.memory, 0), "binding memory");
}

bool tgb_bundle::begin(VkCommandBuffer commands, VkCommandBufferUsageFlags usage) {
  auto info = typed<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  info.flags = usage;
  return good(BeginCommandBuffer(commands, &info), "recording commands");
}

bool tgb_bundle::submit(VkCommandBuffer commands, const char* doing) {
  auto info = typed<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  return good(QueueSubmit(queue, 1, &info, fence), doing) &&
         good(WaitForFences(device, 1, &fence, VK_TRUE, UINT64_MAX), doing) &&
         good(ResetFences(device, 1, &fence), doing);
}

void tgb_bundle::barrier(VkCommandBuffer commands, VkPipelineStageFlags from, VkAccessFlags wrote,
                         VkPipelineStageFlags to, VkAccessFlags use) {
  auto memory = typed<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  memory.srcAccessMask = wrote;
  memory.dstAccessMask = use;
  CmdPipelineBarrier(commands, from, to, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

bool tgb_bundle::createBuffers() {
  int64_t stagingBytes = staging.bytes;
  if (!createBuffer(staging, stagingBytes, true)) return false;
  void* address = nullptr;
  if (!good(MapMemory(device, staging.memory, 0, VK_WHOLE_SIZE, 0, &address), "mapping memory")) return false;
  mapped = static_cast<char*>(address);
  for (auto& [name, memory] : buffers)
    if (!createBuffer(memory, memory.bytes, false)) return false;
  if (!begin(once, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT)) return false;
  for (auto& [name, memory] : buffers) CmdFillBuffer(once, memory.buffer, 0, VK_WHOLE_SIZE, 0);
  return good(EndCommandBuffer(once), "recording commands") && submit(once, "clearing memory");
}

bool tgb_bundle::upload(const string& weights) {
  const Memory& target = buffers["persistent"];
  if (int64_t(weights.size()) > target.bytes) return fail("manifest.json is damaged: the weights do not fit");
  for (size_t done = 0; done < weights.size();) {
    size_t bytes = std::min({weights.size() - done, size_t(staging.bytes), size_t(kChunk)});
    std::memcpy(mapped, weights.data() + done, bytes);
    if (!begin(once, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT)) return false;
    const VkBufferCopy region{0, done, bytes};
    CmdCopyBuffer(once, staging.buffer, target.buffer, 1, &region);
    if (!good(EndCommandBuffer(once), "recording commands") || !submit(once, "uploading weights"))
      return false;
    done += bytes;
  }
  return true;
}

// ---- The program ---------------------------------------------------------------------------------------

bool tgb_bundle::createKernel(const Json& entry, const string& code) {
  Kernel& kernel = kernels[entry["name"].word];
  static const std::map<string, VkFormat> formats = {
      {"storage", VK_FORMAT_UNDEFINED},         {"f32", VK_FORMAT_R32_SFLOAT},
      {"f32x4", VK_FORMAT_R32G32B32A32_SFLOAT}, {"i32", VK_FORMAT_R32_SINT},
      {"i32x4", VK_FORMAT_R32G32B32A32_SINT},   {"u32", VK_FORMAT_R32_UINT},
      {"u32x4", VK_FORMAT_R32G32B32A32_UINT}};
  std::vector<VkDescriptorSetLayoutBinding> bindings;
  for (const Json& each : entry["bindings"].items) {
    auto format = formats.find(each.word);
    if (format == formats.end()) return fail("manifest.json is damaged: a binding '" + each.word + "'");
    kernel.formats.push_back(format->second);
    bindings.push_back(
        {uint32_t(bindings.size()),
         format->second ? VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
         VK_SHADER_STAGE_COMPUTE_BIT, nullptr});
  }
  auto setInfo = typed<VkDescriptorSetLayoutCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
  setInfo.bindingCount = uint32_t(bindings.size());
  setInfo.pBindings = bindings.data();
  auto layoutInfo = typed<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
  layoutInfo.setLayoutCount = 1;
  layoutInfo.pSetLayouts = &kernel.set;
  std::vector<uint32_t> words(code.size() / 4);
  std::memcpy(words.data(), code.data(), words.size() * 4);
  auto moduleInfo = typed<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
  moduleInfo.codeSize = words.size() * 4;
  moduleInfo.pCode = words.data();
  VkShaderModule module = VK_NULL_HANDLE;
  const string doing = "compiling kernel '" + entry["name"].word + "'";
  if (!good(CreateDescriptorSetLayout(device, &setInfo, nullptr, &kernel.set), doing) ||
      !good(CreatePipelineLayout(device, &layoutInfo, nullptr, &kernel.layout), doing) ||
      !good(CreateShaderModule(device, &moduleInfo, nullptr, &module), doing))
    return false;
  auto info = typed<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.layout = kernel.layout;
  VkResult made = CreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, nullptr, &kernel.pipeline);
  DestroyShaderModule(device, module, nullptr);
  return good(made, doing);
}

bool tgb_bundle::bind(const Json& dispatch, const Kernel& kernel, VkDescriptorSet set) {
  const auto& bindings = dispatch["bindings"].items;
  if (bindings.size() != kernel.formats.size())
    return fail("manifest.json is damaged: a dispatch's bindings");
  for (size_t i = 0; i < bindings.size(); ++i) {
    Range part;
    if (!range(bindings[i], part)) return false;
    VkDescriptorBufferInfo bytes{buffers[part.buffer].buffer, VkDeviceSize(part.offset),
                                 VkDeviceSize(part.bytes)};
    auto write = typed<VkWriteDescriptorSet>(VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);
    write.dstSet = set;
    write.dstBinding = uint32_t(i);
    write.descriptorCount = 1;
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = &bytes;
    if (VkFormat format = kernel.formats[i]) {
      bool wide = format == VK_FORMAT_R32G32B32A32_SFLOAT || format == VK_FORMAT_R32G32B32A32_SINT ||
                  format == VK_FORMAT_R32G32B32A32_UINT;
      VkDeviceSize texel = wide ? 16 : 4;
      auto info = typed<VkBufferViewCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO);
      info.buffer = bytes.buffer;
      info.format = format;
      info.offset = bytes.offset;
      info.range = (bytes.range + texel - 1) / texel * texel;
      views.push_back(VK_NULL_HANDLE);
      if (!good(CreateBufferView(device, &info, nullptr, &views.back()), "viewing a buffer")) return false;
      write.descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER;
      write.pTexelBufferView = &views.back();
    }
    UpdateDescriptorSets(device, 1, &write, 0, nullptr);
  }
  return true;
}

/// Inputs from the staging memory, the commands, results back to it.
bool tgb_bundle::record() {
  uint32_t dispatches = 0, storage = 1, texels = 1;
  for (const Json& command : manifest["commands"].items) {
    if (!command.has("dispatch")) continue;
    ++dispatches;
    for (VkFormat format : kernels[command["dispatch"].word].formats) ++(format ? texels : storage);
  }
  const VkDescriptorPoolSize sizes[] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, storage},
                                        {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, texels}};
  auto poolInfo = typed<VkDescriptorPoolCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
  poolInfo.maxSets = std::max(1u, dispatches);
  poolInfo.poolSizeCount = 2;
  poolInfo.pPoolSizes = sizes;
  if (!good(CreateDescriptorPool(device, &poolInfo, nullptr, &descriptorPool), "creating descriptors") ||
      !begin(program, 0))
    return false;
  barrier(program, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_WRITE_BIT, kWork, kAll);
  auto move = [&](const Placed& placed, bool in) {
    const VkBufferCopy region{in ? placed.staged : VkDeviceSize(placed.range.offset),
                              in ? VkDeviceSize(placed.range.offset) : placed.staged,
                              VkDeviceSize(placed.range.bytes)};
    VkBuffer own = buffers[placed.range.buffer].buffer;
    CmdCopyBuffer(program, in ? staging.buffer : own, in ? own : staging.buffer, 1, &region);
  };
  for (const Placed& placed : inputs) move(placed, true);
  barrier(program, kWork, kWrites, kWork, kAll);
  for (const Json& command : manifest["commands"].items) {
    Range first, second;
    if (command.has("barrier")) {
      barrier(program, kWork, kWrites, kWork, kAll);
    } else if (command.has("fill")) {
      if (!range(command["fill"], first)) return false;
      CmdFillBuffer(program, buffers[first.buffer].buffer, VkDeviceSize(first.offset),
                    VkDeviceSize(first.bytes), 0);
    } else if (command.has("copy")) {
      if (!range(command["copy"], first) || !range(command["to"], second)) return false;
      const VkBufferCopy region{VkDeviceSize(first.offset), VkDeviceSize(second.offset),
                                VkDeviceSize(first.bytes)};
      CmdCopyBuffer(program, buffers[first.buffer].buffer, buffers[second.buffer].buffer, 1, &region);
    } else {
      auto kernel = kernels.find(command["dispatch"].word);
      const auto& grid = command["grid"].items;
      if (kernel == kernels.end() || !kernel->second.pipeline || grid.size() != 3)
        return fail("manifest.json is damaged: a command");
      VkDescriptorSet set = VK_NULL_HANDLE;
      auto setInfo = typed<VkDescriptorSetAllocateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);
      setInfo.descriptorPool = descriptorPool;
      setInfo.descriptorSetCount = 1;
      setInfo.pSetLayouts = &kernel->second.set;
      if (!good(AllocateDescriptorSets(device, &setInfo, &set), "creating descriptors") ||
          !bind(command, kernel->second, set))
        return false;
      CmdBindPipeline(program, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->second.pipeline);
      CmdBindDescriptorSets(program, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->second.layout, 0, 1, &set, 0,
                            nullptr);
      CmdDispatch(program, uint32_t(grid[0].integer), uint32_t(grid[1].integer), uint32_t(grid[2].integer));
    }
  }
  barrier(program, kWork, kWrites, kWork, kAll);
  for (const Placed& placed : results) move(placed, false);
  barrier(program, kWork, kWrites, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
  return good(EndCommandBuffer(program), "recording commands");
}

bool tgb_bundle::open(const string& wanted) {
  string weights;
  if (!readManifest() || !readHashed(manifest["weights"], weights)) return false;
  std::vector<string> codes;
  for (const Json& entry : manifest["kernels"].items) {
    codes.emplace_back();
    if (!readHashed(entry, codes.back())) return false;
    // Capabilities stand before everything else, behind five words of header.
    for (size_t at = 20; at + 8 <= codes.back().size(); at += 8) {
      uint32_t words[2];
      std::memcpy(words, codes.back().data() + at, 8);
      if ((words[0] & 0xffff) != 17) break;
      capabilities.insert(words[1]);
    }
  }
  if (!createInstance() || !chooseDevice(wanted) || !checkLimits() || !createDevice() || !createBuffers() ||
      !upload(weights))
    return false;
  for (size_t i = 0; i < codes.size(); ++i)
    if (!createKernel(manifest["kernels"].items[i], codes[i])) return false;
  return record();
}

bool tgb_bundle::run(const tgb_input* in, int inCount, const tgb_output* out, int outCount) {
  auto check = [&](const char* what, const std::vector<Placed>& list, int count, auto* given) {
    if (count != int(list.size()))
      return fail("the model has " + std::to_string(list.size()) + " " + what + "s, not " +
                  std::to_string(count));
    for (size_t i = 0; i < list.size(); ++i)
      if (!given[i].data || given[i].bytes != list[i].shown.bytes)
        return fail(string(what) + " '" + list[i].name + "' has " + std::to_string(list[i].shown.bytes) +
                    " bytes, not " + std::to_string(given[i].data ? given[i].bytes : 0));
    return true;
  };
  error.clear();
  if (!check("input", inputs, inCount, in) || !check("result", results, outCount, out)) return false;
  auto rows = [&](const Placed& p, auto move) {
    for (int64_t row = 0; row < p.rows; ++row)
      move(mapped + p.staged + row * p.pitchBytes, size_t(row * p.rowBytes), size_t(p.rowBytes));
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::memset(mapped + inputs[i].staged, 0, size_t(inputs[i].range.bytes));
    rows(inputs[i], [&](char* memory, size_t dense, size_t bytes) {
      std::memcpy(memory, static_cast<const char*>(in[i].data) + dense, bytes);
    });
  }
  if (!submit(program, "running the model")) return false;
  for (size_t i = 0; i < results.size(); ++i)
    rows(results[i], [&](const char* memory, size_t dense, size_t bytes) {
      std::memcpy(static_cast<char*>(out[i].data) + dense, memory, bytes);
    });
  return true;
}

tgb_bundle::~tgb_bundle() {
  if (device) {
    for (VkBufferView view : views) DestroyBufferView(device, view, nullptr);
    for (auto& [name, kernel] : kernels) {
      DestroyPipeline(device, kernel.pipeline, nullptr);
      DestroyPipelineLayout(device, kernel.layout, nullptr);
      DestroyDescriptorSetLayout(device, kernel.set, nullptr);
    }
    buffers["staging of the loader"] = staging;
    for (auto& [name, memory] : buffers) {
      DestroyBuffer(device, memory.buffer, nullptr);
      FreeMemory(device, memory.memory, nullptr);
    }
    DestroyDescriptorPool(device, descriptorPool, nullptr);
    DestroyFence(device, fence, nullptr);
    DestroyCommandPool(device, commandPool, nullptr);
    DestroyDevice(device, nullptr);
  }
  if (instance) DestroyInstance(instance, nullptr);
  if (library) dlclose(library);
}

// ---- The C functions -----------------------------------------------------------------------------------

tgb_bundle* tgb_open(const char* directory, const char* device) {
  auto* bundle = new tgb_bundle;
  bundle->folder = directory ? directory : ".";
  if (bundle->open(device ? device : "")) return bundle;
  openError = bundle->error;
  delete bundle;
  return nullptr;
}
const char* tgb_open_error(void) { return openError.c_str(); }
void tgb_close(tgb_bundle* bundle) { delete bundle; }

static const tgb_tensor* tensorAt(const std::vector<Placed>& list, int index) {
  return index >= 0 && index < int(list.size()) ? &list[size_t(index)].shown : nullptr;
}
const tgb_tensor* tgb_input_at(const tgb_bundle* bundle, int index) {
  return tensorAt(bundle->inputs, index);
}
const tgb_tensor* tgb_result_at(const tgb_bundle* bundle, int index) {
  return tensorAt(bundle->results, index);
}
int tgb_input_count(const tgb_bundle* bundle) { return int(bundle->inputs.size()); }
int tgb_result_count(const tgb_bundle* bundle) { return int(bundle->results.size()); }
const char* tgb_device(const tgb_bundle* bundle) { return bundle->deviceName.c_str(); }
const char* tgb_error(const tgb_bundle* bundle) { return bundle->error.c_str(); }
int tgb_run(tgb_bundle* bundle, const tgb_input* inputs, int input_count, const tgb_output* results,
            int result_count) {
  return bundle->run(inputs, input_count, results, result_count) ? 0 : -1;
}
