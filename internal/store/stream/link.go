// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"

	"github.com/kvbench/kvbench/internal/clock"
	"github.com/kvbench/kvbench/internal/store/kit"
	"github.com/kvbench/kvbench/internal/store/stream/quiet"
)

const (
	connectTime = time.Second            // after which a store that does not take a connection counts as down
	minPause    = 100 * time.Millisecond // between attempts, growing to
	maxPause    = time.Second
	room        = 8        // messages that may wait for a link's sender
	windowSize  = 16 << 20 // so that flow control is not what is measured

	aliveTime    = 10 * time.Second // as client-go
	aliveTimeout = 3 * time.Second
)

type linkState uint8

const (
	connecting linkState = iota // it will be up or down in a moment
	up
	broken // the lane gave the stream up, and waits for its end
	down   // the last attempt to connect failed; others follow
)

// link is one BatchCommands stream to a store, and all that follow it when it
// breaks. Two goroutines work for it: one connects and receives, one sends,
// since sending blocks when a store does not read. The lane owns the rest.
type link struct {
	connection *storeConnection
	state      linkState
	stray      int // commands that were given up after they were sent, and have not been answered

	// The stream that is up.
	grpc   grpc.ClientStream
	cancel context.CancelFunc

	out     chan outgoing
	starved atomic.Bool // the lane has more to send than there is room for
}

type outgoing struct {
	stream grpc.ClientStream
	data   *[]byte
}

// event is what a session's goroutines tell their lane.
type event struct {
	kind eventKind
	link *link

	stream grpc.ClientStream // linkUp
	cancel context.CancelFunc

	data mem.Buffer    // received: to be freed
	at   time.Duration // received: when it was

	thread *kit.Thread // fallbackDone
}

type eventKind uint8

const (
	linkUp eventKind = iota
	linkDown
	received
	hasRoom
	fallbackDone
)

var commandsDesc = &grpc.StreamDesc{StreamName: "BatchCommands", ServerStreams: true, ClientStreams: true}

const commandsMethod = "/tikvpb.Tikv/BatchCommands"

// dial makes a connection, which is not used before there is a stream.
func dial(address string, creds credentials.TransportCredentials) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(quiet.Dialer(aliveTimeout)),
		grpc.WithInitialWindowSize(windowSize),
		grpc.WithInitialConnWindowSize(windowSize),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: minPause, Multiplier: 1.6, Jitter: .2, MaxDelay: maxPause},
			MinConnectTimeout: connectTime,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: aliveTime, Timeout: aliveTimeout}),
	)
}

// start starts the link's goroutines, which end with ctx and are counted in wg.
func (l *link) start(ctx context.Context, conn *grpc.ClientConn, clk clock.Clock, inbox *kit.Inbox[event], wg *sync.WaitGroup) {
	wg.Go(func() { l.connect(ctx, conn, clk, inbox) })
	wg.Go(func() { l.send(ctx, inbox) })
}

// connect opens one stream after the other: at once after one that has lived for a
// while, else ever more seldom.
func (l *link) connect(ctx context.Context, conn *grpc.ClientConn, clk clock.Clock, inbox *kit.Inbox[event]) {
	defer conn.Close()
	for pause := minPause; ctx.Err() == nil; pause = min(2*pause, maxPause) {
		began := time.Now()
		wasUp := l.receive(ctx, conn, clk, inbox)
		inbox.Put(event{kind: linkDown, link: l})
		if wasUp && time.Since(began) > minPause {
			pause = minPause / 2
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// receive opens a stream and receives until it ends, and tells whether it ever was up.
func (l *link) receive(ctx context.Context, conn *grpc.ClientConn, clk clock.Clock, inbox *kit.Inbox[event]) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := time.AfterFunc(connectTime, cancel)
	stream, err := conn.NewStream(ctx, commandsDesc, commandsMethod)
	if !limit.Stop() || err != nil {
		return false
	}
	inbox.Put(event{kind: linkUp, link: l, stream: stream, cancel: cancel})
	for {
		var f frame
		if stream.RecvMsg(&f) != nil {
			return true
		}
		inbox.Put(event{kind: received, link: l, data: f.receive, at: clk.Now()})
	}
}

// send sends what the lane puts into out. An error needs no word: it ends the stream, which receive sees.
func (l *link) send(ctx context.Context, inbox *kit.Inbox[event]) {
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-l.out:
			if l.starved.Swap(false) {
				inbox.Put(event{kind: hasRoom, link: l})
			}
			_ = o.stream.SendMsg(&frame{send: o.data})
		}
	}
}
