//===- Status.h - errors as values ------------------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_CORE_STATUS_H
#define DIVISI_RUNTIME_CORE_STATUS_H

#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace divisi::runtime {

/// Success, or a one-line error that names the file, flag or input at fault.
class [[nodiscard]] Status {
public:
  enum class Kind {
    Ok,
    Failure, ///< the request could not be carried out: exit code 1
    Silence, ///< the same, because another rank has not come, or not answered, in time
    Refused, ///< the same, because the system refuses to open, read or write a file, whatever it contains
    Usage,   ///< the request is invalid: exit code 2
  };

  Status() = default;
  static Status failure(std::string message) { return {Kind::Failure, std::move(message)}; }
  static Status silence(std::string message) { return {Kind::Silence, std::move(message)}; }
  static Status refused(std::string message) { return {Kind::Refused, std::move(message)}; }
  static Status usage(std::string message) { return {Kind::Usage, std::move(message)}; }

  bool ok() const { return kind_ == Kind::Ok; }
  Kind kind() const { return kind_; }
  bool isSilence() const { return kind_ == Kind::Silence; }
  bool isRefused() const { return kind_ == Kind::Refused; }
  const std::string &message() const { return message_; }
  int exitCode() const { return ok() ? 0 : kind_ == Kind::Usage ? 2 : 1; }

private:
  Status(Kind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  Kind kind_ = Kind::Ok;
  std::string message_;
};

/// A value, or the reason why there is none.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  const Status &status() const { return status_; }
  T &operator*() & { return *value_; }
  T &&operator*() && { return std::move(*value_); }
  const T &operator*() const & { return *value_; }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }

private:
  std::optional<T> value_;
  Status status_;
};

/// The concatenated arguments, as an ostream prints them.
template <typename... Args> std::string concat(const Args &...args) {
  std::ostringstream stream;
  (stream << ... << args);
  return stream.str();
}

/// A failure whose message is the concatenation of `args`.
template <typename... Args> Status failure(const Args &...args) { return Status::failure(concat(args...)); }

/// The status of a call that failed to open or read a file with this `errno`: refused for lack of rights or resources,
/// and for errors of devices; a failure if the file is missing or none that can be read.
Status cannotRead(int error, std::string message);

/// The text of `errno`, such as "No space left on device".
std::string systemError();

/// Another process's text for one line of output: a byte that is not a printable ASCII character becomes \xNN, so that
/// it cannot affect a terminal or a log.
std::string printable(std::string_view text);
/// "'a', 'b' and 3 more": the first names, for a message.
std::string namesOf(const std::vector<std::string> &names);

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_CORE_STATUS_H
