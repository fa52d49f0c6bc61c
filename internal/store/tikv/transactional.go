// SPDX-License-Identifier: Apache-2.0

package tikv

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/tikvrpc/interceptor"
	"github.com/tikv/client-go/v2/txnkv/transaction"
	"github.com/tikv/client-go/v2/txnkv/txnsnapshot"
	pd "github.com/tikv/pd/client"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
)

// Transactional is an open connection to a cluster, for transactions. Its methods may be called from any goroutine.
type Transactional struct {
	connection
	clients []*TxnClient
}

// TxnClient is one instance of client-go's transactional client.
type TxnClient struct {
	*tikv.KVStore
	rpc tikv.Client
	raw pd.Client // without the codec of its keys
}

// ConnectTransactional is [Connect] for transactions.
func ConnectTransactional(ctx context.Context, c Config) (*Transactional, error) {
	c.transactions = true
	cl := &Transactional{}
	if err := cl.ready(ctx, &c); err != nil {
		return nil, err
	}
	for range max(1, c.Clients) {
		client, err := newTxnClient(&c, cl.sent.dialOptions())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("client-go: %w", err), cl.Close())
		}
		cl.clients = append(cl.clients, client)
	}
	cl.pd = cl.clients[0].GetPDClient()
	return cl, nil
}

// newTxnClient does what [txnkv.NewClient] does, and besides counts messages, follows calls, and asks PD itself, not the etcd in it, for
// the time before which versions may be gone: the client of etcd writes to stderr.
func newTxnClient(c *Config, dial []grpc.DialOption) (*TxnClient, error) {
	connections, err := dialing(dial)
	if err != nil {
		return nil, err
	}
	raw, err := pd.NewClient(c.PD, pd.SecurityOption{CAPath: c.CA, CertPath: c.Cert, KeyPath: c.Key}, pdOptions()...)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*TxnClient, error) {
		raw.Close()
		return nil, errors.Join(err, closeLate(raw))
	}
	version, err := c.version()
	if err != nil {
		return fail(err)
	}
	keys := tikv.NewCodecPDClient(tikv.ModeTxn, tracedPD{raw})
	if version == kvrpcpb.APIVersion_V2 {
		if keys, err = tikv.NewCodecPDClientWithKeyspace(tikv.ModeTxn, tracedPD{raw}, c.Keyspace); err != nil {
			return fail(err)
		}
	}
	rpc := tikv.NewRPCClient(tikv.WithSecurity(c.security()), tikv.WithCodec(keys.GetCodec()), connections)
	traced := tracedClient{rpc}
	kv, err := tikv.NewKVStore("kvbench", keys, safePoint{raw}, traced)
	if err != nil {
		_, err = fail(err)
		return nil, errors.Join(err, rpc.Close())
	}
	return &TxnClient{kv, traced, raw}, nil
}

// dialing is the option with which client-go makes its connections to stores. It has one for this, and does not show it.
func dialing(dial []grpc.DialOption) (tikv.ClientOpt, error) {
	option := reflect.TypeFor[tikv.ClientOpt]()
	field, ok := option.In(0).Elem().FieldByName("gRPCDialOptions")
	if !ok || field.Type != reflect.TypeFor[[]grpc.DialOption]() {
		return nil, errors.New("this version of client-go keeps the options of its connections elsewhere")
	}
	set := reflect.MakeFunc(option, func(args []reflect.Value) []reflect.Value {
		options := (*[]grpc.DialOption)(args[0].Elem().FieldByIndex(field.Index).Addr().UnsafePointer())
		*options = append(*options, dial...)
		return nil
	})
	return set.Interface().(tikv.ClientOpt), nil
}

// safePoint tells client-go before which time versions may be gone. It implements [tikv.SafePointKV].
type safePoint struct{ pd pd.Client }

// Get returns the time, whatever the key: there is only that one.
func (s safePoint) Get(string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), attemptTime)
	defer cancel()
	at, err := s.pd.UpdateGCSafePoint(ctx, 0) // which never moves back, so that this only asks
	return strconv.FormatUint(at, 10), err
}

var errOnlyRead = errors.New("the safe point is only read")

func (safePoint) Put(string, string) error                         { return errOnlyRead }
func (safePoint) GetWithPrefix(string) ([]*mvccpb.KeyValue, error) { return nil, errOnlyRead }
func (safePoint) Close() error                                     { return nil }

// Timestamp asks PD for one. Unlike client-go's own way to begin, it ends with ctx.
func (c *TxnClient) Timestamp(ctx context.Context) (uint64, error) {
	return c.GetTimestampWithRetry(tikv.NewBackoffer(ctx, transaction.TsoMaxBackoff), oracle.GlobalTxnScope)
}

// Ago returns the timestamp of a moment in the past, in whole milliseconds, by what PD has said and the time that has passed since: it need not be asked.
func (c *TxnClient) Ago(ctx context.Context, d time.Duration) (uint64, error) {
	now, err := c.GetOracle().GetStaleTimestamp(ctx, oracle.GlobalTxnScope, 0)
	if err != nil {
		return 0, err
	}
	return oracle.ComposeTS(oracle.ExtractPhysical(now)-d.Milliseconds(), 0), nil
}

// Snapshot returns the data as of now.
func (c *TxnClient) Snapshot(ctx context.Context) (*txnsnapshot.KVSnapshot, error) {
	ts, err := c.Timestamp(ctx)
	if err != nil {
		return nil, err
	}
	return c.GetSnapshot(ts), nil
}

// ScansHeed makes scans of a snapshot end with ctx, and be followed by its [Trace]: client-go sends their requests without it.
func (c *TxnClient) ScansHeed(ctx context.Context, s *txnsnapshot.KVSnapshot) {
	s.SetRPCInterceptor(func(interceptor.RPCInterceptorFunc) interceptor.RPCInterceptorFunc {
		return func(addr string, req *tikvrpc.Request) (*tikvrpc.Response, error) {
			resp, err := c.rpc.SendRequest(ctx, addr, req, tikv.ReadTimeoutMedium)
			if ctx.Err() != nil {
				return nil, context.Canceled // what is cancelled otherwise, by a store it seems, is tried again
			}
			return resp, err
		}
	})
}

// Client returns the i-th instance, counted round.
func (t *Transactional) Client(i int) *TxnClient { return t.clients[i%len(t.clients)] }

// Close closes all connections. No call may be in flight.
func (t *Transactional) Close() error {
	defer release()
	var errs []error
	for _, client := range t.clients {
		errs = append(errs, client.Close(), closeLate(client.raw))
	}
	return errors.Join(errs...)
}

// FirstKey implements [store.Admin].
func (t *Transactional) FirstKey(ctx context.Context, first, end []byte) ([]byte, error) {
	client := t.clients[0]
	snapshot, err := client.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	client.ScansHeed(ctx, snapshot)
	snapshot.SetKeyOnly(true)
	snapshot.SetScanBatchSize(2) // the least that client-go takes
	it, err := snapshot.Iter(first, end)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	if !it.Valid() {
		return nil, nil
	}
	return it.Key(), nil
}

// DeleteRange implements [store.Admin]. It is no transaction: all versions go.
func (t *Transactional) DeleteRange(ctx context.Context, first, end []byte) error {
	if len(end) == 0 {
		return errors.New("a range to be deleted needs an end")
	}
	_, err := t.clients[0].KVStore.DeleteRange(ctx, first, end, 1)
	return err
}
