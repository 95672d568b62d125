//===- Services.cpp - communication as generated code calls it ---------------===//
#include "runtime/comm/Exchange.h"
#include "runtime/core/Context.h"

using namespace divisi::runtime;

namespace {
template <typename Body> void communicate(DivisiContext *context, const char *service, Body body) {
  guarded(context, service, [&] {
    if (!context->exchange)
      return context->fail(concat(service, ": this program runs on one device alone"));
    if (Status status = body(*context->exchange); !status.ok())
      context->fail(status.message());
  });
}
} // namespace

void divisi_collective(DivisiContext *context, const DivisiCollective *params, void *const *buffers) {
  communicate(context, "divisi_collective", [&](Exchange &exchange) { return exchange.start(params, buffers); });
}

void divisi_send(DivisiContext *context, const DivisiTransfer *params, void *const *buffers) {
  communicate(context, "divisi_send", [&](Exchange &exchange) { return exchange.send(*params, buffers[0]); });
}

void divisi_receive(DivisiContext *context, const DivisiTransfer *params, void *const *buffers) {
  communicate(context, "divisi_receive", [&](Exchange &exchange) { return exchange.receive(*params, buffers[0]); });
}

void divisi_await(DivisiContext *context, const DivisiAwait *params, void *const *) {
  communicate(context, "divisi_await", [&](Exchange &exchange) { return exchange.await(params->id); });
}
