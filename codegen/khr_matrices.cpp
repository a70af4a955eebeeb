// SPDX-License-Identifier: Apache-2.0
// From SPV_NV_cooperative_matrix to SPV_KHR_cooperative_matrix, instruction by instruction:
//
//   OpCapability 5357, OpExtension "SPV_NV_…"      6022, "SPV_KHR_…"; for bf16 also 5116, 5118 and its extension
//   OpDecorate %extent SpecId n, OpSpecConstant    OpConstant; the number n encodes the use and the element type
//   5358 type element scope rows columns           4456, with the use as a further operand
//   5359 load pointer stride columnMajor …         4457; the layout comes before the stride, as a u32 constant
//   5360 store pointer object stride columnMajor   4458, likewise
//   5361 multiply and add a b c                    4459
//   5362 length, computed by OpSpecConstantOp      4460 in main, with whatever is computed from it: the KHR length is
//                                                  not a specialization constant
//   OpAccessChain to an element of a bf16 matrix   a pointer to bf16; so OpLoad from it gives bf16, and OpFConvert of
//                                                  what is stored through it converts to bf16
//
// The numbers are those of the SPIR-V registry; the headers of SPIRV-Tools 2023.1 lack the newer ones. A first pass
// over the module collects ids (`survey`), a second one rewrites it.
#include "codegen/khr_matrices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>

namespace tg {
namespace {

enum SpirvOp : uint32_t {
  opLine = 8,
  opExtension = 10,
  opEntryPoint = 15,
  opCapability = 17,
  opTypeInt = 21,
  opTypeFloat = 22,
  opTypePointer = 32,
  opConstantTrue = 41,
  opConstant = 43,
  opSpecConstant = 50,
  opSpecConstantOp = 52,
  opFunction = 54,
  opVariable = 59,
  opLoad = 61,
  opStore = 62,
  opAccessChain = 65,
  opDecorate = 71,
  opFConvert = 115,
  opLabel = 248,
  opTypeMatrixKhr = 4456,
  opMatrixLoadKhr = 4457,
  opMatrixStoreKhr = 4458,
  opMatrixMulAddKhr = 4459,
  opMatrixLengthKhr = 4460,
  opTypeMatrixNv = 5358,
  opMatrixLoadNv = 5359,
  opMatrixStoreNv = 5360,
  opMatrixMulAddNv = 5361,
  opMatrixLengthNv = 5362,
};
constexpr uint32_t kMatrixNv = 5357, kMatrixKhr = 6022, kBf16Type = 5116, kBf16Matrix = 5118;
constexpr uint32_t kSpecId = 1, kBf16Encoding = 0, kFunctionStorage = 7;
constexpr size_t kHeader = 5, kBound = 3;  ///< words before the instructions; the place of the bound of ids
/// The SpecId of an extent is kAxis · axis + extent; glslang accepts up to 2047.
constexpr uint32_t kAxis = 256;
/// The axes of a product m x k by k x n; bf16 matrices have a k and an n of their own.
enum Axis : uint32_t { axisM = 1, axisN, axisK, axisBf16N, axisBf16K };

Axis axisOf(uint32_t id) { return static_cast<Axis>(id / kAxis); }
bool isBf16(uint32_t rows, uint32_t columns) {
  return axisOf(rows) >= axisBf16N || axisOf(columns) >= axisBf16N;
}
MatrixUse useOf(uint32_t rows, uint32_t columns) {
  if (axisOf(rows) != axisM) return MatrixUse::b;
  const Axis axis = axisOf(columns);
  return axis == axisK || axis == axisBf16K ? MatrixUse::a : MatrixUse::acc;
}

class Rewriter {
 public:
  explicit Rewriter(const std::vector<uint32_t>& words) : words_(words) {}

  std::vector<uint32_t> run() {
    survey();
    if (!matrices_) return words_;
    out_.assign(words_.begin(), words_.begin() + kHeader);
    each([&](uint32_t op, std::span<const uint32_t> args) { rewrite(op, args); });
    out_[kBound] = bound_;
    return std::move(out_);
  }

 private:
  template <class Fn>
  void each(Fn fn) const {
    for (size_t at = kHeader; at < words_.size(); at += words_[at] >> 16)
      fn(words_[at] & 0xffff, std::span(words_).subspan(at + 1, (words_[at] >> 16) - 1));
  }

  /// Collects the constants of extents, the constant true, and the ids of the functions below.
  void survey() {
    bound_ = words_[kBound];
    each([&](uint32_t op, std::span<const uint32_t> args) {
      if (op == opCapability) matrices_ |= args[0] == kMatrixNv;
      if (op == opDecorate && args[1] == kSpecId && args[2] >= kAxis) {
        extents_[args[0]] = args[2];
        bf16_ |= axisOf(args[2]) >= axisBf16N;
      }
      if (op == opConstantTrue) true_ = args[1];
      if (op == opSpecConstantOp) surveyLength(args);
      surveyElements(op, args);
    });
  }

  /// Collects the ids of matrix lengths and of what is computed from them.
  void surveyLength(std::span<const uint32_t> args) {
    const bool any =
        std::any_of(args.begin() + 3, args.end(), [&](uint32_t id) { return ofLengths_.contains(id); });
    if (any || args[2] == opMatrixLengthNv) ofLengths_.insert(args[1]);
  }

  /// Collects pointers to elements of bf16 matrices, and the values that are stored through them.
  void surveyElements(uint32_t op, std::span<const uint32_t> args) {
    if (op == opTypeMatrixNv && isBf16(extents_.at(args[3]), extents_.at(args[4]))) narrow_.insert(args[0]);
    if (op == opTypePointer && narrow_.contains(args[2])) narrow_.insert(args[0]);
    if (op == opVariable && narrow_.contains(args[0])) narrow_.insert(args[1]);
    if (op == opAccessChain && narrow_.contains(args[2])) elements_.insert(args[1]);
    if (op == opStore && elements_.contains(args[0])) elements_.insert(args[1]);
  }

  /// Appends an instruction.
  void add(uint32_t op, std::initializer_list<uint32_t> args, std::span<const uint32_t> rest = {}) {
    out_.push_back(static_cast<uint32_t>(args.size() + rest.size() + 1) << 16 | op);
    out_.insert(out_.end(), args);
    out_.insert(out_.end(), rest.begin(), rest.end());
  }

  void extension(std::string_view name) {
    out_.push_back(static_cast<uint32_t>(name.size() / 4 + 2) << 16 | opExtension);
    for (size_t at = 0; at <= name.size() / 4; ++at) {
      uint32_t word = 0;
      for (size_t byte = 4 * at; byte < 4 * at + 4 && byte < name.size(); ++byte)
        word |= static_cast<uint32_t>(static_cast<unsigned char>(name[byte])) << 8 * (byte % 4);
      out_.push_back(word);
    }
  }

  static bool isNvExtension(std::span<const uint32_t> args) {
    constexpr std::string_view kName = "SPV_NV_cooperative_matrix";
    std::string text;
    for (uint32_t word : args)
      for (int byte = 0; byte < 4; ++byte) text += static_cast<char>(word >> 8 * byte);
    return text.substr(0, text.find('\0')) == kName;
  }

  /// The id of the u32 constant 0, 1 or 2. They are made before the first matrix type: types and constants may come
  /// in any order that defines before use, and every use of these numbers comes behind a matrix type.
  uint32_t number(uint32_t value) const { return numbers_ + value; }
  void makeNumbers() {
    if (numbers_ != 0) return;
    numbers_ = bound_;
    bound_ += 3;
    for (uint32_t value = 0; value < 3; ++value) add(opConstant, {u32_, numbers_ + value, value});
    if (!bf16_) return;
    bf16Type_ = bound_++;
    add(opTypeFloat, {bf16Type_, 16, kBf16Encoding});
    bf16Pointer_ = bound_++;
    add(opTypePointer, {bf16Pointer_, kFunctionStorage, bf16Type_});
  }
  uint32_t layout(uint32_t columnMajor) const { return number(columnMajor == true_ ? 1 : 0); }

  /// Emits the lengths, and what is computed from them, at the start of main, behind its variables.
  void placeLengths(uint32_t op) {
    if (!inMain_ || lengths_.empty() || op == opFunction || op == opLabel || op == opVariable || op == opLine)
      return;
    for (std::span<const uint32_t> args : lengths_)
      add(args[2] == opMatrixLengthNv ? uint32_t{opMatrixLengthKhr} : args[2], {args[0], args[1]},
          args.subspan(3));
    lengths_.clear();
  }

  void rewrite(uint32_t op, std::span<const uint32_t> args) {
    placeLengths(op);
    switch (op) {
    case opCapability:
      add(op, {args[0] == kMatrixNv ? kMatrixKhr : args[0]});
      if (args[0] != kMatrixNv || !bf16_) return;
      add(op, {kBf16Type});
      return add(op, {kBf16Matrix});
    case opExtension:
      if (!isNvExtension(args)) break;
      if (bf16_) extension("SPV_KHR_bfloat16");
      return extension("SPV_KHR_cooperative_matrix");
    case opDecorate:
      if (args[1] == kSpecId && extents_.contains(args[0])) return;
      break;
    case opSpecConstant:
      if (extents_.contains(args[1])) return add(opConstant, {}, args);
      break;
    case opSpecConstantOp:
      if (!ofLengths_.contains(args[1])) break;
      lengths_.push_back(args);
      return;
    case opEntryPoint: main_ = args[1]; break;
    case opFunction: inMain_ = args[1] == main_; break;
    case opTypeInt:
      if (args[1] == 32 && args[2] == 0) u32_ = args[0];
      break;
    case opTypeMatrixNv: {
      makeNumbers();
      const uint32_t rows = extents_.at(args[3]), columns = extents_.at(args[4]);
      return add(opTypeMatrixKhr, {args[0], isBf16(rows, columns) ? bf16Type_ : args[1], args[2], args[3],
                                   args[4], number(static_cast<uint32_t>(useOf(rows, columns)))});
    }
    case opMatrixLoadNv:
      return add(opMatrixLoadKhr, {args[0], args[1], args[2], layout(args[4]), args[3]}, args.subspan(5));
    case opMatrixStoreNv:
      return add(opMatrixStoreKhr, {args[0], args[1], layout(args[3]), args[2]}, args.subspan(4));
    case opAccessChain:
      if (elements_.contains(args[1])) return add(op, {bf16Pointer_}, args.subspan(1));
      break;
    case opLoad:
      if (elements_.contains(args[2])) return add(op, {bf16Type_}, args.subspan(1));
      break;
    case opFConvert:
      if (elements_.contains(args[1])) return add(op, {bf16Type_}, args.subspan(1));
      break;
    case opMatrixMulAddNv: return add(opMatrixMulAddKhr, {}, args);
    case opMatrixLengthNv: return add(opMatrixLengthKhr, {}, args);
    default: break;
    }
    add(op, {}, args);
  }

  const std::vector<uint32_t>& words_;
  std::vector<uint32_t> out_;
  bool matrices_ = false, bf16_ = false;
  std::map<uint32_t, uint32_t> extents_;  ///< ids of the constants of matrixExtents, and their SpecIds
  std::set<uint32_t> narrow_;     ///< bf16 matrix types, pointer types to them, and variables of these
  std::set<uint32_t> elements_;   ///< pointers to elements of these, and values stored through them
  std::set<uint32_t> ofLengths_;  ///< lengths, and what is computed from them outside of functions
  std::vector<std::span<const uint32_t>> lengths_;  ///< operands of these instructions, until main begins
  uint32_t main_ = 0;
  bool inMain_ = false;
  uint32_t true_ = 0, u32_ = 0, numbers_ = 0, bf16Type_ = 0, bf16Pointer_ = 0, bound_ = 0;
};

}  // namespace

std::array<MatrixExtent, 2> matrixExtents(const Type& type) {
  const bool bf16 = type.dtype == DType::bf16;
  const auto of = [&](int place, Axis axis) {
    static constexpr const char* kNames[] = {"", "M", "N", "K", "Bf16N", "Bf16K"};
    const int64_t extent = type.shape[place];
    return MatrixExtent{axis * kAxis + static_cast<uint32_t>(extent),
                        fmt::format("tg{}{}", kNames[axis], extent), extent};
  };
  const Axis k = bf16 ? axisBf16K : axisK;
  if (type.use == MatrixUse::a) return {of(0, axisM), of(1, k)};
  if (type.use == MatrixUse::b) return {of(0, k), of(1, axisN)};
  return {of(0, axisM), of(1, bf16 ? axisBf16N : axisN)};
}

std::vector<uint32_t> toKhrMatrices(const std::vector<uint32_t>& words) { return Rewriter(words).run(); }

}  // namespace tg
