//===- Services.cpp - communication as generated code calls it ---------------===//
#include "runtime/comm/Communicator.h"
#include "runtime/comm/Staging.h"
#include "runtime/core/Context.h"

using namespace divisi::runtime;

namespace {
template <typename Body> void communicate(DivisiContext *context, const char *service, Body body) {
  guarded(context, service, [&] {
    if (!context->communicator)
      return context->fail(concat(service, ": this program runs on one device alone"));
    if (Status status = body(*context->communicator); !status.ok())
      context->fail(status.message());
  });
}
} // namespace

void divisi_collective(DivisiContext *context, const DivisiCollective *params, void *const *buffers) {
  communicate(context, "divisi_collective", [&](Communicator &c) {
    return context->staging ? context->staging->start(c, params, buffers) : c.start(params, buffers);
  });
}

void divisi_send(DivisiContext *context, const DivisiTransfer *params, void *const *buffers) {
  communicate(context, "divisi_send", [&](Communicator &c) {
    return context->staging ? context->staging->send(c, *params, buffers[0]) : c.send(*params, buffers[0]);
  });
}

void divisi_receive(DivisiContext *context, const DivisiTransfer *params, void *const *buffers) {
  communicate(context, "divisi_receive", [&](Communicator &c) {
    return context->staging ? context->staging->receive(c, *params, buffers[0]) : c.receive(*params, buffers[0]);
  });
}

void divisi_await(DivisiContext *context, const DivisiAwait *params, void *const *) {
  communicate(context, "divisi_await", [&](Communicator &c) {
    return context->staging ? context->staging->await(c, params->id) : c.await(params->id);
  });
}
