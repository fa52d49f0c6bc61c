// SPDX-License-Identifier: Apache-2.0

// Package localfleet runs workers inside of this process, which listen on loopback and
// are spoken to as any other, so that there is one way to run and not two.
package localfleet

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/worker"
)

// Fleet is a number of workers. Close must be called at the end.
type Fleet struct {
	// Addresses and Security are what it takes to speak to the workers. A secret
	// keeps other users of the machine out.
	Addresses []string
	Security  control.Security

	data    string
	workers []*worker.Worker
	servers []*control.Server
	serving sync.WaitGroup
}

// Start starts n workers made as cfg says, except for their names and
// directories. Unless it says how many lanes each has, they share the cores. Their
// journals are removed by Close.
func Start(n int, cfg worker.Config) (*Fleet, error) {
	data, err := os.MkdirTemp("", "kvbench-local-")
	if err != nil {
		return nil, fmt.Errorf("directory for the journals: %w", err)
	}
	if cfg.Lanes == 0 {
		cfg.Lanes = max(1, runtime.GOMAXPROCS(0)/n)
	}
	f := &Fleet{data: data, Security: control.Security{Token: rand.Text()}}
	for i := range n {
		if err := f.start(fmt.Sprintf("local-%d", i), cfg); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

func (f *Fleet) start(name string, cfg worker.Config) error {
	cfg.Name, cfg.Data = name, filepath.Join(f.data, name)
	w, err := worker.New(cfg)
	if err != nil {
		return err
	}
	f.workers = append(f.workers, w)
	server, err := control.NewServer(w, f.Security, cfg.Log)
	if err != nil {
		return err
	}
	f.servers = append(f.servers, server)
	listener, err := control.Listen("127.0.0.1:0", f.Security, cfg.Log)
	if err != nil {
		return err
	}
	f.serving.Go(func() {
		if err := server.Serve(listener); err != nil {
			cfg.Log.Error("a local worker does not serve any more", "worker", name, "error", err)
		}
	})
	f.Addresses = append(f.Addresses, listener.Addr().String())
	return nil
}

// Close ends whatever the workers still run, and the workers.
func (f *Fleet) Close() error {
	for _, w := range f.workers {
		w.Close(0)
	}
	for _, s := range f.servers {
		s.Close()
	}
	f.serving.Wait()
	return os.RemoveAll(f.data)
}
