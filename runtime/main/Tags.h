//===- Tags.h - tags of messages between ranks ------------------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_TAGS_H
#define DIVISI_RUNTIME_MAIN_TAGS_H

namespace divisi::runtime {

/// Tags (Communicator::post) by the way in which replicas are kept in step. A program has one way, so that each has all numbers from 1 to 8.
namespace servedTags { // dedicated servers
inline constexpr int hello = 1, order = 2, push = 3, pull = 4, note = 5, result = 6;
}
namespace gossipTags { // asynchronous
inline constexpr int event = 1, hello = 2, order = 3, ask = 4, answer = 5;
}
namespace localTags { // averages after some steps
inline constexpr int ask = 1, answer = 2, mean = 3;
}

} // namespace divisi::runtime

#endif // DIVISI_RUNTIME_MAIN_TAGS_H
