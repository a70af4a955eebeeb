// SPDX-License-Identifier: Apache-2.0
#include "ir/lexer.h"

#include <algorithm>
#include <cctype>

namespace tg {

static bool isDigit(char c) { return c >= '0' && c <= '9'; }
static bool isWordStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool isWordChar(char c) { return isWordStart(c) || isDigit(c) || c == '.' || c == '$'; }
bool isWord(std::string_view text) {
  return !text.empty() && isWordStart(text.front()) && std::ranges::all_of(text, isWordChar);
}
static bool isBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

Lexer::Lexer(std::shared_ptr<const SourceFile> file) : file_(std::move(file)), text_(file_->text) {
  if (constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf"; text_.starts_with(kByteOrderMark))
    at_ = kByteOrderMark.size();
  advance();
}

Token Lexer::next() {
  Token token = token_;
  advance();
  return token;
}

bool Lexer::isOnLineOf(const Token& earlier) const {
  return text_.substr(earlier.offset, token_.offset - earlier.offset).find('\n') == std::string_view::npos;
}

bool Lexer::beginsLine() const {
  return text_.substr(last_, token_.offset - last_).find('\n') != std::string_view::npos;
}

bool Lexer::startsWith(std::string_view text) const {
  return text_.substr(token_.offset, text.size()) == text;
}

void Lexer::rewind(uint32_t offset) {
  at_ = offset;
  advance();
}

std::string_view Lexer::rawUntil(char stop) {
  uint32_t begin = token_.offset;
  size_t end = begin;
  while (end < text_.size() && text_[end] != stop && text_[end] != '\n') ++end;
  std::string_view raw = text_.substr(begin, end - begin);
  rewind(static_cast<uint32_t>(end < text_.size() && text_[end] == stop ? end + 1 : end));
  return raw;
}

Loc Lexer::locAt(uint32_t offset) const {
  if (offset < knownOffset_) knownOffset_ = 0, knownLine_ = 1, knownLineStart_ = 0;
  for (uint32_t i = knownOffset_; i < offset && i < text_.size(); ++i)
    if (text_[i] == '\n') ++knownLine_, knownLineStart_ = i + 1;
  knownOffset_ = offset;
  LocNode node;
  node.file = file_;
  node.line = knownLine_;
  node.col = offset - knownLineStart_ + 1;
  return std::make_shared<const LocNode>(std::move(node));
}

/// Length of the number that starts at `at`: decimal with exponent, or hex float.
static size_t numberLength(std::string_view text, size_t at) {
  size_t i = at;
  if (i < text.size() && text[i] == '-') ++i;
  bool hex = text.substr(i, 2) == "0x" || text.substr(i, 2) == "0X";
  if (hex) i += 2;
  while (i < text.size()) {
    char c = text[i];
    bool digit = hex ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : isDigit(c);
    bool exponent = hex ? (c == 'p' || c == 'P') : (c == 'e' || c == 'E');
    if (exponent && i + 1 < text.size() && (text[i + 1] == '+' || text[i + 1] == '-'))
      i += 2;
    else if (digit || exponent || c == '.')
      ++i;
    else
      break;
  }
  return i - at;
}

/// Reads the next token: skips white space and comments, then decides by the first character.
void Lexer::advance() {
  last_ = at_;
  for (;;) {
    while (at_ < text_.size() && isBlank(text_[at_])) ++at_;
    if (text_.substr(at_, 2) != "//") break;
    size_t newline = text_.find('\n', at_);
    at_ = static_cast<uint32_t>(newline == std::string_view::npos ? text_.size() : newline);
  }
  token_ = {Token::Kind::end, {}, at_};
  if (at_ >= text_.size()) return;
  char c = text_[at_];
  auto take = [&](Token::Kind kind, size_t skip, size_t length) {
    token_.kind = kind;
    token_.text = text_.substr(at_ + skip, length);
    at_ += static_cast<uint32_t>(skip + length);
  };
  auto wordLength = [&](size_t from) {
    size_t end = from;
    while (end < text_.size() && isWordChar(text_[end])) ++end;
    return end - from;
  };
  if (isWordStart(c)) return take(Token::Kind::word, 0, wordLength(at_));
  if (c == '%' || c == '@') {
    size_t length = wordLength(at_ + 1);
    const bool foreign = at_ + 1 < text_.size() && static_cast<signed char>(text_[at_ + 1]) < 0;
    if (length == 0)
      return take(c == '%' && !foreign ? Token::Kind::punct : Token::Kind::bad, 0, foreign ? 2 : 1);
    return take(c == '%' ? Token::Kind::value : Token::Kind::symbol, 1, length);
  }
  bool negative = c == '-' && at_ + 1 < text_.size();
  if (isDigit(c) || (negative && isDigit(text_[at_ + 1])))
    return take(Token::Kind::number, 0, numberLength(text_, at_));
  if (negative && (text_.substr(at_ + 1, 3) == "inf" || text_.substr(at_ + 1, 3) == "nan"))
    return take(Token::Kind::number, 0, 4);
  if (text_.substr(at_, 2) == "->") return take(Token::Kind::arrow, 0, 2);
  if (c == '"') {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size() || text_[end] != '"') return take(Token::Kind::bad, 0, 1);
    take(Token::Kind::string, 1, end - at_ - 1);
    ++at_;
    return;
  }
  if (std::string_view("{}()[]<>,:=?+-*/&|^~!").find(c) != std::string_view::npos)
    return take(Token::Kind::punct, 0, 1);
  take(Token::Kind::bad, 0, 1);
}

}  // namespace tg
