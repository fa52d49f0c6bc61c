// SPDX-License-Identifier: Apache-2.0

package coordinator

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

// Workers are workers inside of this process. They listen on loopback and are
// spoken to as any other, so that there is one way to run and not two.
type Workers struct {
	// Targets and Security are what Connect needs. A secret keeps other users of
	// the machine out.
	Targets  []Target
	Security control.Security

	data    string
	workers []*worker.Worker
	servers []*control.Server
	serving sync.WaitGroup
}

// Local starts n workers made as cfg says, except for their names and
// directories. Unless it says how many lanes each has, they share the cores. Their
// journals are removed by Close.
func Local(n int, cfg worker.Config) (*Workers, error) {
	data, err := os.MkdirTemp("", "kvbench-local-")
	if err != nil {
		return nil, fmt.Errorf("directory for the journals: %w", err)
	}
	if cfg.Lanes == 0 {
		cfg.Lanes = max(1, runtime.GOMAXPROCS(0)/n)
	}
	l := &Workers{data: data, Security: control.Security{Token: rand.Text()}}
	for i := range n {
		if err := l.start(fmt.Sprintf("local-%d", i), cfg); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, nil
}

func (l *Workers) start(name string, cfg worker.Config) error {
	cfg.Name, cfg.Data = name, filepath.Join(l.data, name)
	w, err := worker.New(cfg)
	if err != nil {
		return err
	}
	l.workers = append(l.workers, w)
	server, err := control.NewServer(w, l.Security, cfg.Log)
	if err != nil {
		return err
	}
	l.servers = append(l.servers, server)
	listener, err := control.Listen("127.0.0.1:0", l.Security, cfg.Log)
	if err != nil {
		return err
	}
	l.serving.Go(func() {
		if err := server.Serve(listener); err != nil {
			cfg.Log.Error("a local worker does not serve any more", "worker", name, "error", err)
		}
	})
	l.Targets = append(l.Targets, Target{Address: listener.Addr().String()})
	return nil
}

// Close ends whatever the workers still run, and the workers.
func (l *Workers) Close() error {
	for _, w := range l.workers {
		w.Close(0)
	}
	for _, s := range l.servers {
		s.Close()
	}
	l.serving.Wait()
	return os.RemoveAll(l.data)
}
