// SPDX-License-Identifier: Apache-2.0

package tikv

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/rawkv"
	client "github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	pd "github.com/tikv/pd/client"

	"github.com/kvbench/kvbench/internal/store"
)

// Trace follows one call after another through client-go, and sees what rawkv does not tell: how
// many requests it sent, and errors in answers that it overlooks. Its
// methods may be called from any goroutine.
type Trace struct {
	rpcs  atomic.Int32
	text  atomic.Pointer[string] // of the first error in an answer
	costs *costs                 // nil: they are not counted
}

// costs are what the one call of a transaction asks of stores and PD. A raw call is one command, and does not pay for this.
type costs struct {
	commands   [store.CommandKinds + 1]atomic.Int32
	timestamps atomic.Int32
	waited     atomic.Int64 // for timestamps, in nanoseconds
}

type traceKey struct{}

// Context returns a context whose calls are followed by t.
func (t *Trace) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// CountCosts makes t count commands and timestamps. It comes before the first call.
func (t *Trace) CountCosts() { t.costs = new(costs) }

// Reset makes t ready for the next call.
func (t *Trace) Reset() {
	t.rpcs.Store(0)
	if t.text.Load() != nil { // which costs less than to store
		t.text.Store(nil)
	}
	if t.costs == nil {
		return
	}
	t.costs.timestamps.Store(0)
	t.costs.waited.Store(0)
	for c := range t.costs.commands {
		if n := &t.costs.commands[c]; n.Load() != 0 {
			n.Store(0)
		}
	}
}

// RPCs returns how many requests the call sent to stores, retries and the
// parts of a batch included. Requests to PD are not counted.
func (t *Trace) RPCs() int32 { return t.rpcs.Load() }

// Waited returns for how long the call has waited for timestamps of PD, if costs are counted.
func (t *Trace) Waited() time.Duration { return time.Duration(t.costs.waited.Load()) }

// AddTo adds the timestamps and commands that the call has asked for to c, if costs are counted.
func (t *Trace) AddTo(c *store.Cost) {
	c.Timestamps += t.costs.timestamps.Load()
	for kind := range t.costs.commands {
		c.Commands[kind] += t.costs.commands[kind].Load()
	}
}

// StoreError returns the first error text with which a store answered the call,
// or "". Region errors, which client-go deals with, are not among them.
func (t *Trace) StoreError() string {
	if text := t.text.Load(); text != nil {
		return *text
	}
	return ""
}

func (t *Trace) fail(text string) { t.text.CompareAndSwap(nil, &text) }

// tracedClient tells each call's Trace about the requests that are sent for it.
type tracedClient struct{ client.Client }

// trace puts a tracedClient around raw's RPC client, which client-go lets be set but not
// read. It can be made anew, but without the options that raw's connections are made with.
func trace(raw *rawkv.Client) error {
	field := reflect.ValueOf(raw).Elem().FieldByName("rpcClient")
	if !field.IsValid() || field.Type() != reflect.TypeFor[client.Client]() {
		return errors.New("this version of client-go keeps a raw client's RPC client elsewhere")
	}
	rpc := (*client.Client)(field.Addr().UnsafePointer())
	*rpc = tracedClient{*rpc}
	return nil
}

// SendRequest implements [client.Client]. client-go asserts an answer's type
// unchecked, in goroutines of its own, so an answer of the wrong type would
// end the process; here it is an error.
func (c tracedClient) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (resp *tikvrpc.Response, err error) {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	if t == nil {
		return c.Client.SendRequest(ctx, addr, req, timeout)
	}
	t.rpcs.Add(1)
	if t.costs != nil {
		t.costs.commands[commandOf(req.Type)].Add(1)
	}
	defer func() {
		if r := recover(); r != nil {
			resp, err = nil, fmt.Errorf("%s answered a %s in a way that client-go cannot take: %v", addr, req.Type, r)
		}
	}()
	resp, err = c.Client.SendRequest(ctx, addr, req, timeout)
	if err != nil || resp.Resp == nil {
		return resp, err
	}
	text, ok := storeError(req.Type, resp.Resp)
	if !ok {
		return nil, fmt.Errorf("%s answered a %s with a %T", addr, req.Type, resp.Resp)
	}
	if text != "" {
		t.fail(text)
	}
	return resp, nil
}

// tracedPD tells each call's Trace about the timestamps that are asked for it.
type tracedPD struct{ pd.Client }

// GetTS implements [pd.Client].
func (c tracedPD) GetTS(ctx context.Context) (physical, logical int64, err error) {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	if t == nil || t.costs == nil {
		return c.Client.GetTS(ctx)
	}
	t.costs.timestamps.Add(1)
	began := time.Now()
	defer func() { t.costs.waited.Add(int64(time.Since(began))) }()
	return c.Client.GetTS(ctx)
}

// commands are the kinds of the commands that transactions are made of, as client-go has them.
var commands = map[tikvrpc.CmdType]store.Command{
	tikvrpc.CmdGet: store.TxnGet, tikvrpc.CmdBatchGet: store.TxnBatchGet, tikvrpc.CmdScan: store.TxnScan,
	tikvrpc.CmdPrewrite: store.Prewrite, tikvrpc.CmdCommit: store.Commit, tikvrpc.CmdBatchRollback: store.BatchRollback,
	tikvrpc.CmdCheckTxnStatus: store.CheckTxnStatus, tikvrpc.CmdCheckSecondaryLocks: store.CheckSecondaryLocks,
	tikvrpc.CmdResolveLock: store.ResolveLock, tikvrpc.CmdPessimisticLock: store.PessimisticLock,
	tikvrpc.CmdPessimisticRollback: store.PessimisticRollback, tikvrpc.CmdTxnHeartBeat: store.TxnHeartBeat,
}

func commandOf(c tikvrpc.CmdType) store.Command {
	if kind, ok := commands[c]; ok {
		return kind
	}
	return store.OtherCommand
}

// storeError returns the error text in a store's answer to a raw command; not
// ok if it is not an answer to such a command. Of a batch read or a scan, TiKV reports an
// error as one pair that holds nothing else, which rawkv takes for a miss,
// or for an empty key.
func storeError(cmd tikvrpc.CmdType, resp any) (text string, ok bool) {
	switch cmd {
	case tikvrpc.CmdRawGet:
		if r, ok := resp.(*kvrpcpb.RawGetResponse); ok {
			return r.Error, true
		}
	case tikvrpc.CmdRawBatchGet:
		if r, ok := resp.(*kvrpcpb.RawBatchGetResponse); ok {
			return PairError(r.Pairs), true
		}
	case tikvrpc.CmdRawPut:
		if r, ok := resp.(*kvrpcpb.RawPutResponse); ok {
			return r.Error, true
		}
	case tikvrpc.CmdRawBatchPut:
		if r, ok := resp.(*kvrpcpb.RawBatchPutResponse); ok {
			return r.Error, true
		}
	case tikvrpc.CmdRawDelete:
		if r, ok := resp.(*kvrpcpb.RawDeleteResponse); ok {
			return r.Error, true
		}
	case tikvrpc.CmdRawBatchDelete:
		if r, ok := resp.(*kvrpcpb.RawBatchDeleteResponse); ok {
			return r.Error, true
		}
	case tikvrpc.CmdRawScan:
		if r, ok := resp.(*kvrpcpb.RawScanResponse); ok {
			return PairError(r.Kvs), true
		}
	case tikvrpc.CmdRawCompareAndSwap:
		if r, ok := resp.(*kvrpcpb.RawCASResponse); ok {
			return r.Error, true
		}
	default:
		return "", true // a command that no driver of ours sends
	}
	return "", false
}

// PairError returns the text of the first error among pairs, or "".
func PairError(pairs []*kvrpcpb.KvPair) string {
	for _, p := range pairs {
		switch e := p.GetError(); {
		case e == nil:
		case e.Abort != "":
			return e.Abort
		case e.Retryable != "":
			return e.Retryable
		default:
			return e.String()
		}
	}
	return ""
}
