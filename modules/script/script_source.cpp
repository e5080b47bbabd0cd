#include "modules/script/script_source.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include <torch/csrc/jit/frontend/lexer.h>
#include <torch/csrc/jit/frontend/parser.h>
#include <torch/csrc/jit/frontend/tree_views.h>

#include "modules/script/script_refusal.h"

namespace sluice {
namespace {

namespace jit = torch::jit;

/// Operators in an expression, blocks in blocks, and branches of an
/// `if`: the parser and the compiler recurse over them.
constexpr std::size_t kDeepestExpression = 500;
constexpr int kDeepestBlock = 64;
constexpr int kMostBranches = 200;

/// Counts, token by token, how deep the parser would recurse.
class NestingCount {
 public:
  NestingCount(const std::string& file, const std::string& name)
      : file_(file), name_(name) {}

  void add(int token) {
    switch (token) {
      case '(':
      case '[':
      case '{':
        operators_.push_back(1);
        break;
      case ')':
      case ']':
      case '}':
        if (operators_.size() > 1) operators_.pop_back();
        break;
      case ',':  // the bracket stays
        operators_.back() = operators_.size() > 1 ? 1 : 0;
        break;
      case jit::TK_NEWLINE:
        operators_ = {0};
        break;
      case jit::TK_INDENT:
        ++blocks_;
        break;
      case jit::TK_DEDENT:
        --blocks_;
        break;
      case jit::TK_ELIF:
        ++branches_;
        break;
      case jit::TK_IDENT:
      case jit::TK_NUMBER:
      case jit::TK_STRINGLITERAL:
        break;
      default:
        ++operators_.back();
    }
    check();
  }

 private:
  void check() const {
    const std::size_t deep =
        std::accumulate(operators_.begin(), operators_.end(), std::size_t{0});
    if (deep > kDeepestExpression || blocks_ > kDeepestBlock ||
        branches_ > kMostBranches)
      refuse_script(file_,
                    "{}: an expression has more than {} operators, or blocks "
                    "are nested more than {} deep",
                    name_, kDeepestExpression, kDeepestBlock);
  }

  const std::string& file_;
  const std::string& name_;
  std::vector<std::size_t> operators_ = {0};  // by brackets that are open
  int blocks_ = 0;
  int branches_ = 0;
};

/// Whether a token is part of a value, calls aside.
bool is_part_of_value(int kind) {
  static const std::set<int> kinds = {'.',
                                      jit::TK_LIST,
                                      jit::TK_OPTION,
                                      jit::TK_IDENT,
                                      jit::TK_STRING,
                                      jit::TK_CONST,
                                      jit::TK_STRINGLITERAL,
                                      jit::TK_TRUE,
                                      jit::TK_FALSE,
                                      jit::TK_NONE,
                                      jit::TK_VAR,
                                      jit::TK_UNARY_MINUS,
                                      jit::TK_LIST_LITERAL,
                                      jit::TK_TUPLE_LITERAL,
                                      jit::TK_DICT_LITERAL,
                                      jit::TK_SUBSCRIPT,
                                      jit::TK_NOTHING,
                                      jit::TK_DOTS};
  return kinds.contains(kind);
}

/// float("nan"), torch.device("cpu"), annotate(List[int], []).
bool is_call_of_value(const jit::Apply& call) {
  const jit::Expr callee = call.callee();
  if (callee.kind() == jit::TK_VAR) {
    static const std::set<std::string> names = {"annotate", "float", "int",
                                                "bool", "complex"};
    return names.contains(jit::Var(callee).name().name());
  }
  if (callee.kind() != '.') return false;
  const jit::Select select(callee);
  return select.selector().name() == "device" &&
         select.value().kind() == jit::TK_VAR &&
         jit::Var(select.value()).name().name() == "torch";
}

bool is_value(const jit::TreeRef& tree) {
  if (tree->kind() == jit::TK_APPLY) {
    if (!is_call_of_value(jit::Apply(tree))) return false;
  } else if (!is_part_of_value(tree->kind())) {
    return false;
  }
  return std::all_of(tree->trees().begin(), tree->trees().end(), is_value);
}

/// Looks at all classes and functions of a source.
class SourceWalk {
 public:
  SourceWalk(const std::string& source, const std::string& file,
             const std::string& name)
      : source_(std::make_shared<jit::Source>(source)),
        file_(file),
        name_(name) {}

  void check() {
    check_nesting();
    jit::Parser parser(source_);
    skip_version(parser.lexer());
    for (;;) {
      skip_imports(parser.lexer());
      const int kind = parser.lexer().cur().kind;
      if (kind == jit::TK_EOF) return;
      if (kind == jit::TK_CLASS_DEF)
        check_class(jit::ClassDef(parser.parseClass()));
      else if (kind == jit::TK_DEF)
        check_function(jit::Def(parser.parseFunction(/*is_method=*/false)), "");
      else
        refuse_script(file_, "{}: it is no source of TorchScript", name_);
    }
  }

 private:
  void check_nesting() const {
    NestingCount count(file_, name_);
    jit::Lexer lexer(source_);
    while (lexer.cur().kind != jit::TK_EOF) count.add(lexer.next().kind);
  }

  /// Older files begin with "op_version_set = 1".
  static void skip_version(jit::Lexer& lexer) {
    if (lexer.cur().kind != jit::TK_IDENT ||
        lexer.cur().text() != "op_version_set")
      return;
    lexer.next();
    lexer.expect('=');
    lexer.expect(jit::TK_NUMBER);
    lexer.expect(jit::TK_NEWLINE);
  }

  static void skip_imports(jit::Lexer& lexer) {
    while (lexer.nextIf(jit::TK_IMPORT)) {
      while (lexer.cur().kind != jit::TK_NEWLINE &&
             lexer.cur().kind != jit::TK_EOF)
        lexer.next();
      lexer.expect(jit::TK_NEWLINE);
    }
  }

  void check_class(const jit::ClassDef& type) const {
    const std::string name = type.name().name();
    for (const jit::Stmt& statement : type.body()) {
      if (statement.kind() == jit::TK_DEF)
        check_function(jit::Def(statement), name + ".");
      else if (statement.kind() == jit::TK_ASSIGN)
        check_constant(jit::Assign(statement), name);
      else
        refuse_script(file_,
                      "{}: the class '{}' has more than attributes and "
                      "methods",
                      name_, name);
    }
  }

  void check_constant(const jit::Assign& assign,
                      const std::string& type) const {
    // __annotations__["0"] = Tensor
    const bool is_annotation = assign.lhs().kind() == jit::TK_SUBSCRIPT;
    if (is_annotation || !assign.rhs().present()) return;
    if (!is_value(assign.rhs().get()))
      refuse_script(file_,
                    "{}: a constant of '{}' is no value but is computed, which "
                    "happens while the file is read",
                    name_, type);
  }

  void check_function(const jit::Def& function,
                      const std::string& owner) const {
    const std::string name = owner + function.name().name();
    if (function.name().name() == "__setstate__")
      refuse_script(file_,
                    "{}: '{}' runs while the file is read, before it can be "
                    "looked at",
                    name_, name);
    for (const jit::Param& parameter : function.decl().params()) {
      const auto value = parameter.defaultValue();
      if (value.present() && !is_value(value.get()))
        refuse_script(file_,
                      "{}: the default of '{}' in '{}' is no value but is "
                      "computed, which happens while the file is read",
                      name_, parameter.ident().name(), name);
    }
  }

  std::shared_ptr<jit::Source> source_;
  const std::string& file_;
  const std::string& name_;
};

}  // namespace

void check_script_source(const std::string& source, const std::string& file,
                         const std::string& name) {
  SourceWalk(source, file, name).check();
}

}  // namespace sluice
