// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc64"

	"github.com/cockroachdb/pebble/v2"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// Limits of TiKV's default configuration.
const (
	maxKeySize   = 8192
	maxRaftEntry = 8 << 20
)

// Every handler checks in TiKV's order: what the request itself gets wrong (API version, column family, key size, TTL) goes to the
// response's error; then the region, whose errors the client corrects and retries; then the data.

func (c *call) rawGet(req *kvrpcpb.RawGetRequest, resp *kvrpcpb.RawGetResponse) {
	family, err := c.accept(req.Context, cmdRawGet, req.Cf, req.Key)
	if err != nil {
		resp.Error = err.Error()
		return
	}
	if _, resp.RegionError = c.holder(req.Context, req.Key); resp.RegionError != nil {
		return
	}
	value, found, err := c.lookup(family, req.Key)
	if err != nil {
		resp.Error = err.Error()
	}
	resp.Value, resp.NotFound = value, !found && err == nil
}

func (c *call) rawBatchGet(req *kvrpcpb.RawBatchGetRequest, resp *kvrpcpb.RawBatchGetResponse) {
	family, err := c.accept(req.Context, cmdRawBatchGet, req.Cf, req.Keys...)
	if err != nil {
		resp.Pairs = append(resp.Pairs, failedPair(err))
		return
	}
	if _, resp.RegionError = c.holder(req.Context, req.Keys...); resp.RegionError != nil {
		return
	}
	for _, key := range req.Keys {
		value, found, err := c.lookup(family, key)
		if err != nil {
			resp.Pairs = append(resp.Pairs[:0], failedPair(err))
			return
		}
		if found {
			resp.Pairs = append(resp.Pairs, c.pair(key, value))
		}
	}
}

func (c *call) rawPut(req *kvrpcpb.RawPutRequest, resp *kvrpcpb.RawPutResponse) {
	family, err := c.accept(req.Context, cmdRawPut, req.Cf, req.Key)
	if err == nil {
		err = cmp.Or(checkKeySize(req.Key), c.checkTTL(req.Ttl))
	}
	if err != nil {
		resp.Error = err.Error()
		return
	}
	r, regionErr := c.holder(req.Context, req.Key)
	if regionErr == nil {
		regionErr = c.checkEntry(r, len(req.Key)+len(req.Value))
	}
	if resp.RegionError = regionErr; regionErr != nil {
		return
	}
	err = c.write(req.ForCas, func(b *pebble.Batch) error {
		return c.put(b, family, req.Key, req.Value, req.Ttl)
	})
	if err != nil {
		resp.Error = err.Error()
	}
}

func (c *call) rawBatchPut(req *kvrpcpb.RawBatchPutRequest, resp *kvrpcpb.RawBatchPutResponse) {
	family, err := c.accept(req.Context, cmdRawBatchPut, req.Cf)
	size := 0
	for i, pair := range req.Pairs {
		if err != nil {
			break
		}
		err = cmp.Or(c.checkKeyMode(cmdRawBatchPut, pair.Key), checkKeySize(pair.Key), c.checkTTL(ttlOf(req, i)))
		size += len(pair.Key) + len(pair.Value)
	}
	if n := len(req.Ttls); err == nil && n > 1 && n != len(req.Pairs) {
		err = fmt.Errorf("the length of ttls (%d) does not equal to the length of pairs (%d)", n, len(req.Pairs))
	}
	if err != nil {
		resp.Error = err.Error()
		return
	}
	r, regionErr := c.region(req.Context)
	for i := 0; regionErr == nil && i < len(req.Pairs); i++ {
		regionErr = c.checkKey(r, req.Pairs[i].Key)
	}
	if regionErr == nil {
		regionErr = c.checkEntry(r, size)
	}
	if resp.RegionError = regionErr; regionErr != nil {
		return
	}
	err = c.write(req.ForCas, func(b *pebble.Batch) error {
		for i, pair := range req.Pairs {
			if err := c.put(b, family, pair.Key, pair.Value, ttlOf(req, i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		resp.Error = err.Error()
	}
}

// ttlOf is the TTL of pair i: one for all, one each, or none (then the field that came before, which had one for all).
func ttlOf(req *kvrpcpb.RawBatchPutRequest, i int) uint64 {
	switch n := len(req.Ttls); {
	case n == 0:
		return req.Ttl
	case n == 1:
		return req.Ttls[0]
	case i < n:
		return req.Ttls[i]
	default:
		return 0
	}
}

func (c *call) rawDelete(req *kvrpcpb.RawDeleteRequest, resp *kvrpcpb.RawDeleteResponse) {
	resp.RegionError, resp.Error = c.deleteKeys(req.Context, cmdRawDelete, req.Cf, req.ForCas, req.Key)
}

func (c *call) rawBatchDelete(req *kvrpcpb.RawBatchDeleteRequest, resp *kvrpcpb.RawBatchDeleteResponse) {
	resp.RegionError, resp.Error = c.deleteKeys(req.Context, cmdRawBatchDelete, req.Cf, req.ForCas, req.Keys...)
}

func (c *call) deleteKeys(ctx *kvrpcpb.Context, cmd command, cf string, forCAS bool, keys ...[]byte) (*errorpb.Error, string) {
	family, err := c.accept(ctx, cmd, cf, keys...)
	for i := 0; err == nil && i < len(keys); i++ {
		err = checkKeySize(keys[i])
	}
	if err != nil {
		return nil, err.Error()
	}
	if _, regionErr := c.holder(ctx, keys...); regionErr != nil {
		return regionErr, ""
	}
	err = c.write(forCAS, func(b *pebble.Batch) error {
		for _, key := range keys {
			if err := c.delete(b, family, key); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err.Error()
	}
	return nil, ""
}

func (c *call) rawScan(req *kvrpcpb.RawScanRequest, resp *kvrpcpb.RawScanResponse) {
	family, err := c.accept(req.Context, cmdRawScan, req.Cf, req.StartKey)
	if err != nil {
		resp.Kvs = append(resp.Kvs, failedPair(err))
		return
	}
	r, regionErr := c.region(req.Context)
	if regionErr == nil {
		regionErr = c.checkSeek(r, req.StartKey, req.Reverse)
	}
	if resp.RegionError = regionErr; regionErr != nil {
		return
	}
	resp.Kvs = c.scan(resp.Kvs, family, r, scanRange{req.StartKey, req.EndKey, req.Reverse}, req.Limit, req.KeyOnly)
}

func (c *call) rawBatchScan(req *kvrpcpb.RawBatchScanRequest, resp *kvrpcpb.RawBatchScanResponse) {
	family, err := c.accept(req.Context, cmdRawBatchScan, req.Cf)
	for i := 0; err == nil && i < len(req.Ranges); i++ {
		err = c.checkKeyMode(cmdRawBatchScan, req.Ranges[i].StartKey)
	}
	if err != nil {
		resp.Kvs = append(resp.Kvs, failedPair(err))
		return
	}
	r, regionErr := c.region(req.Context)
	for i := 0; regionErr == nil && i < len(req.Ranges); i++ {
		regionErr = c.checkSeek(r, req.Ranges[i].StartKey, req.Reverse)
	}
	if resp.RegionError = regionErr; regionErr != nil {
		return
	}
	for _, kr := range req.Ranges {
		resp.Kvs = c.scan(resp.Kvs, family, r, scanRange{kr.StartKey, kr.EndKey, req.Reverse}, req.EachLimit, req.KeyOnly)
	}
}

// scanRange is [from, to) ascending, or (reverse) [to, from) descending; an empty key is unbounded.
type scanRange struct {
	from, to []byte
	reverse  bool
}

// iterator opens an iterator over the part of a range that lies in the region.
func (c *call) iterator(family byte, r *region, s scanRange) (*pebble.Iterator, error) {
	low, high := s.from, s.to
	if s.reverse {
		low, high = s.to, s.from
	}
	if bytes.Compare(low, r.start) < 0 {
		low = r.start
	}
	if len(high) == 0 || len(r.end) > 0 && bytes.Compare(high, r.end) > 0 {
		high = r.end
	}
	opts := &pebble.IterOptions{LowerBound: append([]byte{family}, low...), UpperBound: familyEnd(family)}
	if len(high) > 0 {
		opts.UpperBound = append([]byte{family}, high...)
	}
	if bytes.Compare(opts.LowerBound, opts.UpperBound) > 0 {
		opts.UpperBound = opts.LowerBound
	}
	return c.storage.db.NewIter(opts)
}

func (c *call) scan(kvs []*kvrpcpb.KvPair, family byte, r *region, s scanRange, limit uint32, keyOnly bool) []*kvrpcpb.KvPair {
	if limit == 0 {
		return kvs
	}
	it, err := c.iterator(family, r, s)
	if err != nil {
		return append(kvs, failedPair(err))
	}
	defer it.Close()
	start, step := it.First, it.Next
	if s.reverse {
		start, step = it.Last, it.Prev
	}
	for ok := start(); ok && limit > 0; ok = step() {
		e := c.storage.openValue(it.Value())
		if !c.storage.live(e) || c.swallows() {
			continue
		}
		pair := c.pair(c.keep(it.Key()[1:]), nil)
		if !keyOnly {
			pair.Value = c.keep(e.value)
		}
		kvs = append(kvs, pair)
		limit--
	}
	if err := it.Error(); err != nil {
		return append(kvs, failedPair(err))
	}
	return kvs
}

func (c *call) rawDeleteRange(req *kvrpcpb.RawDeleteRangeRequest, resp *kvrpcpb.RawDeleteRangeResponse) {
	family, err := c.accept(req.Context, cmdRawDeleteRange, req.Cf, req.StartKey)
	if err == nil {
		err = cmp.Or(checkKeySize(req.StartKey), checkKeySize(req.EndKey))
	}
	if err != nil {
		resp.Error = err.Error()
		return
	}
	r, regionErr := c.holder(req.Context, req.StartKey)
	switch {
	case regionErr != nil:
	case len(req.EndKey) == 0 && len(r.end) > 0, len(r.end) > 0 && bytes.Compare(req.EndKey, r.end) > 0:
		regionErr = c.keyNotInRegion(r, req.EndKey)
	case len(req.EndKey) > 0 && bytes.Compare(req.StartKey, req.EndKey) >= 0:
		regionErr = c.refuse("Other", &errorpb.Error{
			Message: fmt.Sprintf("invalid delete range command, start_key: %q, end_key: %q", req.StartKey, req.EndKey),
		})
	}
	if resp.RegionError = regionErr; regionErr != nil {
		return
	}
	end := familyEnd(family)
	if len(req.EndKey) > 0 {
		end = append([]byte{family}, req.EndKey...)
	}
	err = c.write(false, func(b *pebble.Batch) error { return b.DeleteRange(c.stored(family, req.StartKey), end, nil) })
	if err != nil {
		resp.Error = err.Error()
	}
}

func (c *call) rawGetKeyTTL(req *kvrpcpb.RawGetKeyTTLRequest, resp *kvrpcpb.RawGetKeyTTLResponse) {
	family, err := c.accept(req.Context, cmdRawGetKeyTTL, req.Cf, req.Key)
	if err == nil && !c.storage.expires() {
		err = errors.New("ttl is not enabled, but get a request for the ttl of a key")
	}
	if err != nil {
		resp.Error = err.Error()
		return
	}
	if _, resp.RegionError = c.holder(req.Context, req.Key); resp.RegionError != nil {
		return
	}
	stored, closer, err := c.storage.db.Get(c.stored(family, req.Key))
	if errors.Is(err, pebble.ErrNotFound) {
		resp.NotFound = true
		return
	}
	if err != nil {
		resp.Error = err.Error()
		return
	}
	defer closer.Close()
	e := c.storage.openValue(stored)
	switch {
	case c.storage.expired(e):
		resp.NotFound = true
	case e.expiry != 0:
		resp.Ttl = e.expiry - uint64(c.storage.now().Unix())
	}
}

func (c *call) rawCompareAndSwap(req *kvrpcpb.RawCASRequest, resp *kvrpcpb.RawCASResponse) {
	family, err := c.accept(req.Context, cmdRawCompareAndSwap, req.Cf, req.Key)
	if err == nil {
		err = c.checkTTL(req.Ttl)
	}
	if err != nil {
		resp.Error = err.Error()
		return
	}
	r, regionErr := c.holder(req.Context, req.Key)
	if regionErr == nil {
		regionErr = c.checkEntry(r, len(req.Key)+len(req.Value))
	}
	if resp.RegionError = regionErr; regionErr != nil {
		return
	}
	err = c.write(true, func(b *pebble.Batch) error {
		value, found, err := c.lookup(family, req.Key)
		if err != nil {
			return err
		}
		resp.PreviousNotExist, resp.PreviousValue = !found, value
		if found == req.PreviousNotExist || found && !bytes.Equal(value, req.PreviousValue) {
			return nil
		}
		resp.Succeed = true
		return c.put(b, family, req.Key, req.Value, req.Ttl)
	})
	if err != nil {
		*resp = kvrpcpb.RawCASResponse{Error: err.Error()}
	}
}

var crcTable = crc64.MakeTable(crc64.ECMA)

func (c *call) rawChecksum(req *kvrpcpb.RawChecksumRequest, resp *kvrpcpb.RawChecksumResponse) {
	family, err := c.accept(req.Context, cmdRawChecksum, "")
	if err == nil && req.Algorithm != kvrpcpb.ChecksumAlgorithm_Crc64_Xor {
		err = fmt.Errorf("unknown checksum algorithm %v", req.Algorithm)
	}
	if err != nil {
		resp.Error = err.Error()
		return
	}
	r, regionErr := c.region(req.Context)
	for i := 0; regionErr == nil && i < len(req.Ranges); i++ {
		regionErr = c.checkSeek(r, req.Ranges[i].StartKey, false)
	}
	if resp.RegionError = regionErr; regionErr != nil {
		return
	}
	for _, kr := range req.Ranges {
		if err := c.checksum(family, r, kr, resp); err != nil {
			*resp = kvrpcpb.RawChecksumResponse{Error: err.Error()}
			return
		}
	}
}

func (c *call) checksum(family byte, r *region, kr *kvrpcpb.KeyRange, sum *kvrpcpb.RawChecksumResponse) error {
	it, err := c.iterator(family, r, scanRange{from: kr.StartKey, to: kr.EndKey})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		e := c.storage.openValue(it.Value())
		if !c.storage.live(e) {
			continue
		}
		key := it.Key()[1:]
		sum.Checksum ^= crc64.Update(crc64.Checksum(key, crcTable), crcTable, e.value)
		sum.TotalKvs++
		sum.TotalBytes += uint64(len(key) + len(e.value))
	}
	return it.Error()
}

func failedPair(err error) *kvrpcpb.KvPair {
	return &kvrpcpb.KvPair{Error: &kvrpcpb.KeyError{Abort: err.Error()}}
}

func checkKeySize(key []byte) error {
	if len(key) > maxKeySize {
		return fmt.Errorf("max key size exceeded, size: %d, limit: %d", len(key), maxKeySize)
	}
	return nil
}

func (c *call) checkTTL(ttl uint64) error {
	if ttl != 0 && !c.storage.expires() {
		return errors.New("ttl is not enabled, but get put request with ttl")
	}
	return nil
}
