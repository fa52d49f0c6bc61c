// Package tmpdeps holds the dependencies together until the packages that use them are there.
package tmpdeps

import (
	_ "github.com/HdrHistogram/hdrhistogram-go"
	_ "github.com/cockroachdb/pebble/v2"
	_ "github.com/cockroachdb/pebble/v2/vfs"
	_ "github.com/magiconair/properties"
	_ "github.com/pingcap/kvproto/pkg/kvrpcpb"
	_ "github.com/pingcap/kvproto/pkg/pdpb"
	_ "github.com/pingcap/kvproto/pkg/tikvpb"
	_ "github.com/pingcap/log"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "github.com/tikv/client-go/v2/rawkv"
	_ "github.com/tikv/client-go/v2/tikv"
	_ "github.com/tikv/pd/client"
	_ "go.uber.org/goleak"
	_ "go.uber.org/zap"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "golang.org/x/time/rate"
	_ "google.golang.org/genproto/protobuf/api"
	_ "google.golang.org/grpc"
	_ "google.golang.org/grpc/health"
	_ "google.golang.org/protobuf/proto"
)
