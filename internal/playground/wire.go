// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"errors"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"google.golang.org/protobuf/encoding/protowire"
)

// The generated decoder allocates some ten objects for a point read, which costs more than the read. The functions here decode the
// five commands that a load consists of into messages that are used again; their bytes alias the buffer, and the request context,
// which a client repeats for every command of a region, is decoded once. All other commands take the generated decoder.

var (
	errWireType    = errors.New("playground: wrong wire type in a request")
	errTwoContexts = errors.New("playground: two contexts in a request")
)

// fields walks over the fields of an encoded message.
type fields struct {
	rest   []byte
	number protowire.Number
	kind   protowire.Type
	bytes  []byte // the value, of a length-delimited field
	varint uint64 // the value, of a varint field
	err    error
}

func (f *fields) next() bool {
	if f.err != nil || len(f.rest) == 0 {
		return false
	}
	var n int
	if f.number, f.kind, n = protowire.ConsumeTag(f.rest); n < 0 {
		f.err = protowire.ParseError(n)
		return false
	}
	f.rest = f.rest[n:]
	switch f.kind {
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(f.rest)
	case protowire.VarintType:
		f.varint, n = protowire.ConsumeVarint(f.rest)
	default:
		n = protowire.ConsumeFieldValue(f.number, f.kind, f.rest)
	}
	if n < 0 {
		f.err = protowire.ParseError(n)
		return false
	}
	f.rest = f.rest[n:]
	return true
}

// want reports whether the current field has the wire type that its number calls for; a wrong one ends the walk.
func (f *fields) want(kind protowire.Type) bool {
	if f.kind != kind {
		f.err = errWireType
	}
	return f.err == nil
}

func (f *fields) takeBytes(to *[]byte) {
	if f.want(protowire.BytesType) {
		*to = f.bytes
	}
}

func (f *fields) takeString(to *string) {
	if f.want(protowire.BytesType) {
		*to = string(f.bytes)
	}
}

func (f *fields) takeUint(to *uint64) {
	if f.want(protowire.VarintType) {
		*to = f.varint
	}
}

func (f *fields) takeBool(to *bool) {
	if f.want(protowire.VarintType) {
		*to = f.varint != 0
	}
}

// takeUints reads a repeated number, packed or not.
func (f *fields) takeUints(to *[]uint64) {
	if f.kind == protowire.VarintType {
		*to = append(*to, f.varint)
		return
	}
	if !f.want(protowire.BytesType) {
		return
	}
	for rest := f.bytes; len(rest) > 0; {
		v, n := protowire.ConsumeVarint(rest)
		if n < 0 {
			f.err = protowire.ParseError(n)
			return
		}
		*to, rest = append(*to, v), rest[n:]
	}
}

// contexts remembers decoded request contexts by their bytes. A context in it is shared and never written to.
type contexts map[string]*kvrpcpb.Context

const maxContexts = 4096

func (c contexts) take(f *fields, to **kvrpcpb.Context) {
	if !f.want(protowire.BytesType) {
		return
	}
	if *to != nil {
		f.err = errTwoContexts // protobuf would merge them
		return
	}
	if known, ok := c[string(f.bytes)]; ok {
		*to = known
		return
	}
	ctx := &kvrpcpb.Context{}
	if f.err = ctx.Unmarshal(f.bytes); f.err != nil {
		return
	}
	if len(c) >= maxContexts {
		clear(c)
	}
	c[string(f.bytes)] = ctx
	*to = ctx
}

func (c contexts) decodeRawGet(b []byte, req *kvrpcpb.RawGetRequest) error {
	*req = kvrpcpb.RawGetRequest{}
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.take(&f, &req.Context)
		case 2:
			f.takeBytes(&req.Key)
		case 3:
			f.takeString(&req.Cf)
		}
	}
	return f.err
}

func (c contexts) decodeRawPut(b []byte, req *kvrpcpb.RawPutRequest) error {
	*req = kvrpcpb.RawPutRequest{}
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.take(&f, &req.Context)
		case 2:
			f.takeBytes(&req.Key)
		case 3:
			f.takeBytes(&req.Value)
		case 4:
			f.takeString(&req.Cf)
		case 5:
			f.takeUint(&req.Ttl)
		case 6:
			f.takeBool(&req.ForCas)
		}
	}
	return f.err
}

func (c contexts) decodeRawDelete(b []byte, req *kvrpcpb.RawDeleteRequest) error {
	*req = kvrpcpb.RawDeleteRequest{}
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.take(&f, &req.Context)
		case 2:
			f.takeBytes(&req.Key)
		case 3:
			f.takeString(&req.Cf)
		case 4:
			f.takeBool(&req.ForCas)
		}
	}
	return f.err
}

func (c contexts) decodeRawBatchGet(b []byte, req *kvrpcpb.RawBatchGetRequest) error {
	*req = kvrpcpb.RawBatchGetRequest{Keys: req.Keys[:0]}
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.take(&f, &req.Context)
		case 2:
			if f.want(protowire.BytesType) {
				req.Keys = append(req.Keys, f.bytes)
			}
		case 3:
			f.takeString(&req.Cf)
		}
	}
	return f.err
}

func (c contexts) decodeRawBatchPut(b []byte, req *kvrpcpb.RawBatchPutRequest) error {
	*req = kvrpcpb.RawBatchPutRequest{Pairs: req.Pairs[:0], Ttls: req.Ttls[:0]}
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 1:
			c.take(&f, &req.Context)
		case 2:
			if f.want(protowire.BytesType) {
				req.Pairs = extendPairs(req.Pairs)
				f.err = decodePair(f.bytes, req.Pairs[len(req.Pairs)-1])
			}
		case 3:
			f.takeString(&req.Cf)
		case 4:
			f.takeUint(&req.Ttl)
		case 5:
			f.takeBool(&req.ForCas)
		case 6:
			f.takeUints(&req.Ttls)
		}
	}
	return f.err
}

// extendPairs lengthens a slice by one pair, one that was there before if it can.
func extendPairs(pairs []*kvrpcpb.KvPair) []*kvrpcpb.KvPair {
	if n := len(pairs); n < cap(pairs) {
		if pairs = pairs[:n+1]; pairs[n] != nil {
			return pairs
		}
		pairs[n] = &kvrpcpb.KvPair{}
		return pairs
	}
	return append(pairs, &kvrpcpb.KvPair{})
}

func decodePair(b []byte, pair *kvrpcpb.KvPair) error {
	*pair = kvrpcpb.KvPair{}
	f := fields{rest: b}
	for f.next() {
		switch f.number {
		case 2:
			f.takeBytes(&pair.Key)
		case 3:
			f.takeBytes(&pair.Value)
		}
	}
	return f.err
}
