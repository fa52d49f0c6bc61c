// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// etcd is the part of the etcd inside of PD that a transactional client asks: for the time before which versions may be gone. Nobody
// has ever set it here, and nothing is removed. A client that gets no answer takes its own reads for unsafe after 100 s.
type etcd struct {
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedClusterServer
	pd *pd
}

func (e *etcd) header() *etcdserverpb.ResponseHeader {
	return &etcdserverpb.ResponseHeader{ClusterId: e.pd.cluster.id, MemberId: 1, Revision: 1, RaftTerm: 1}
}

// Range finds nothing, as in an etcd to which nothing was written.
func (e *etcd) Range(context.Context, *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	e.pd.count("etcd Range")
	return &etcdserverpb.RangeResponse{Header: e.header()}, nil
}

// MemberList names the one member.
func (e *etcd) MemberList(context.Context, *etcdserverpb.MemberListRequest) (*etcdserverpb.MemberListResponse, error) {
	e.pd.count("etcd MemberList")
	url := []string{e.pd.url()}
	m := &etcdserverpb.Member{ID: 1, Name: "pd-0", PeerURLs: url, ClientURLs: url}
	return &etcdserverpb.MemberListResponse{Header: e.header(), Members: []*etcdserverpb.Member{m}}, nil
}
