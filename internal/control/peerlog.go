// SPDX-License-Identifier: Apache-2.0

package control

import (
	"log/slog"
	"net"
	"sync"
)

// peerLog tells once who was refused and why, so that a scanner or a
// misconfigured coordinator neither goes unseen nor fills the disk.
type peerLog struct {
	log *slog.Logger

	mu   sync.Mutex
	seen map[[2]string]struct{} // by host and reason
}

// maxRefusals bounds the memory and the log. Beyond it, refusals go unlogged.
const maxRefusals = 1000

func newPeerLog(log *slog.Logger) *peerLog {
	return &peerLog{log: log, seen: make(map[[2]string]struct{})}
}

// refused logs the first refusal of a peer for a reason.
func (p *peerLog) refused(peer net.Addr, reason string, err error) {
	key := [2]string{host(peer), reason}
	p.mu.Lock()
	_, known := p.seen[key]
	room := len(p.seen)
	if !known && room < maxRefusals {
		p.seen[key] = struct{}{}
	}
	p.mu.Unlock()
	switch {
	case known || room >= maxRefusals:
	case room == maxRefusals-1:
		p.log.Warn("control: refused too many to log; the next ones are not")
	default:
		p.log.Warn("control: refused (logged once for this peer and reason)", "peer", key[0], "reason", reason, "error", err)
	}
}

// host is the peer without its port, which differs on each connection.
func host(a net.Addr) string {
	if a == nil {
		return "unknown"
	}
	h, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return h
}
