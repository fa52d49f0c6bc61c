// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	_ "unsafe" // for linkname

	"github.com/tikv/client-go/v2/tikv"
	"google.golang.org/grpc"
)

// withGRPCDialOptions is client-go's option for what gRPC is told about connections
// to stores. Unlike [tikv.WithCodec], client-go 2.0.7 does not hand it on from its
// internal package. A version without it does not link.
//
//go:linkname withGRPCDialOptions github.com/tikv/client-go/v2/internal/client.WithGRPCDialOptions
func withGRPCDialOptions(...grpc.DialOption) tikv.ClientOpt
