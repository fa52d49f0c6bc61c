// SPDX-License-Identifier: Apache-2.0

package localfleet

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/store/memory"
	"github.com/kvbench/kvbench/internal/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFleet: each worker answers to who knows the secret, under its own name, and
// nothing is left of it afterwards.
func TestFleet(t *testing.T) {
	t.Parallel()
	db := &memory.DB{}
	quiet := slog.New(slog.DiscardHandler)
	f, err := Start(2, worker.Config{Open: db.Open, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	hello := func(address string, s control.Security) (*workerpb.HelloResponse, error) {
		conn, err := control.Dial(address, "127.0.0.1", s, nil, quiet)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return workerpb.NewWorkerClient(conn).Hello(context.Background(), &workerpb.HelloRequest{})
	}
	for i, want := range []string{"local-0", "local-1"} {
		if _, err := hello(f.Addresses[i], control.Security{}); err == nil || !strings.Contains(err.Error(), "token") {
			t.Errorf("without the secret: %v", err)
		}
		if resp, err := hello(f.Addresses[i], f.Security); err != nil || resp.GetName() != want {
			t.Errorf("%s says it is %q: %v", want, resp.GetName(), err)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(f.data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("journals are left: %v", err)
	}
}
