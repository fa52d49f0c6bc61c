// SPDX-License-Identifier: Apache-2.0

// Package coordinator leads a fleet of workers through a run: it finds them,
// compares clocks, prepares all before any may start, starts all at one moment,
// watches, copies their journals as they grow, and stops them. What they measured
// is in the results directory whatever happened to whom.
//
// A worker in this process, in another one, behind a forwarded port or in a pod is
// the same to it: a name and a way to connect.
package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/results"
)

// Target is how a worker is reached.
type Target struct {
	Address string // host:port, or with Dial whatever names the worker to the user
	Host    string // name that its certificate must carry; empty: the host of Address
	Dial    control.Dialer
}

const dnsScheme = "dns:///"

// Targets reads a list of workers: host:port separated by commas, or
// dns:///name:port, which stands for every address of that name.
func Targets(ctx context.Context, list string) ([]Target, error) {
	var targets []Target
	for _, item := range strings.Split(list, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		address, all := strings.CutPrefix(item, dnsScheme)
		host, port, err := net.SplitHostPort(address)
		if err != nil || port == "" || (all && host == "") {
			return nil, exitcode.With(exitcode.Usage, fmt.Errorf("worker %q: want host:port, or dns:///name:port", item))
		}
		if !all {
			targets = append(targets, Target{Address: address})
			continue
		}
		ips, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			return nil, exitcode.With(exitcode.Unreachable, fmt.Errorf("workers %s: %w", item, err))
		}
		addresses := podNames(ctx, host, port)
		if len(addresses) == 0 {
			for _, ip := range ips {
				addresses = append(addresses, net.JoinHostPort(ip, port))
			}
		}
		slices.SortFunc(addresses, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
		for _, address := range addresses {
			targets = append(targets, Target{Address: address, Host: host})
		}
	}
	if len(targets) == 0 {
		return nil, exitcode.With(exitcode.Usage, errors.New("no workers are given"))
	}
	return targets, nil
}

// podNames returns the workers behind a headless Service of Kubernetes by the names
// that its pods keep when they are replaced, which their addresses do not survive;
// nothing for a name that is none.
func podNames(ctx context.Context, service, port string) (addresses []string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, records, err := net.DefaultResolver.LookupSRV(ctx, "control", "tcp", service)
	if err != nil {
		return nil
	}
	for _, r := range records {
		if p := fmt.Sprint(r.Port); p == port {
			addresses = append(addresses, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), p))
		}
	}
	return addresses
}

// Options say how to speak to the workers.
type Options struct {
	Security control.Security
	Log      *slog.Logger
}

// Fleet is a set of workers that have answered. Close must be called at the end.
type Fleet struct {
	members []*member
	log     *slog.Logger
}

// member is one worker.
type member struct {
	index   int
	name    string // unique in the fleet; of its directory in the results
	address string
	hello   *workerpb.HelloResponse
	conn    *grpc.ClientConn
	client  workerpb.WorkerClient
}

const helloTimeout = 10 * time.Second

// Connect says hello to all workers at once. It fails if one does not answer
// within 10 s, speaks another version, or is there twice.
func Connect(ctx context.Context, targets []Target, o Options) (*Fleet, error) {
	f := &Fleet{log: o.Log}
	for i, t := range targets {
		host := cmp.Or(t.Host, hostOf(t.Address))
		conn, err := control.Dial(t.Address, host, o.Security, t.Dial, o.Log)
		if err != nil {
			f.Close()
			return nil, exitcode.With(exitcode.Usage, err)
		}
		f.members = append(f.members, &member{
			index: i, name: t.Address, address: t.Address,
			conn: conn, client: workerpb.NewWorkerClient(conn),
		})
	}
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	err := f.all(ctx, func(ctx context.Context, m *member) (err error) {
		m.hello, err = m.client.Hello(ctx, &workerpb.HelloRequest{})
		if err == nil && m.hello.GetProtocol() != control.Protocol {
			err = exitcode.With(exitcode.Unreachable, fmt.Errorf("it is kvbench %s and speaks version %d of the protocol, this is version %d: use the same kvbench everywhere",
				m.hello.GetVersion(), m.hello.GetProtocol(), control.Protocol))
		}
		return err
	})
	if err == nil {
		err = f.identify()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// identify names the members, and refuses a worker that is there twice.
func (f *Fleet) identify() error {
	instances := make(map[string]string) // address by instance
	names := make(map[string]int)
	for _, m := range f.members {
		if other, twice := instances[m.hello.GetInstance()]; twice {
			return exitcode.With(exitcode.Usage, fmt.Errorf("%s and %s are the same worker", other, m.address))
		}
		instances[m.hello.GetInstance()] = m.address
		names[m.hello.GetName()]++
	}
	seen := make(map[string]bool)
	for _, m := range f.members {
		name := m.hello.GetName()
		if names[name] > 1 { // several on one host
			name = fmt.Sprintf("%s-%d", name, m.index)
		}
		if err := results.CheckName(name); err != nil || seen[name] {
			name = fmt.Sprintf("worker-%d", m.index)
		}
		m.name, seen[name] = name, true
	}
	return nil
}

// otherBuilds says which workers are another build than ours. They speak the same
// protocol, so it refuses nothing: whoever builds the image from a changed checkout
// has "-dirty" in one version and not in the other.
func (f *Fleet) otherBuilds(ours string) (warnings []string) {
	if ours == "" {
		return nil
	}
	builds := make(map[string][]string) // names by version
	for _, m := range f.members {
		if theirs := m.hello.GetVersion(); theirs != ours {
			builds[theirs] = append(builds[theirs], m.name)
		}
	}
	for _, theirs := range slices.Sorted(maps.Keys(builds)) {
		warnings = append(warnings, fmt.Sprintf("%s: kvbench %s, this is %s; both speak version %d of the protocol",
			some(builds[theirs], len(f.members)), theirs, ours, control.Protocol))
	}
	return warnings
}

// Size is the number of workers.
func (f *Fleet) Size() int { return len(f.members) }

// Close ends the connections. Runs go on if they are detached.
func (f *Fleet) Close() {
	for _, m := range f.members {
		m.conn.Close()
	}
}

// all calls do for all members at once, waits for all, and joins their errors.
func (f *Fleet) all(ctx context.Context, do func(context.Context, *member) error) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs = make(map[string]error)
	)
	for _, m := range f.members {
		wg.Go(func() {
			if err := do(ctx, m); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs[m.name] = err
			}
		})
	}
	wg.Wait()
	return failures(errs, len(f.members))
}
