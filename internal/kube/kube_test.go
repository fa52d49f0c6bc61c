// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	tunnel "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	spdystream "k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/kvbench/kvbench/internal/exitcode"
)

func TestMain(m *testing.M) {
	// When a connection that is already broken is closed, the SPDY library waits
	// for some minutes for somebody to ask for the error.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/moby/spdystream.(*Connection).shutdown"))
}

// cluster is an API server with pods whose ports are ports of this machine. Its
// port-forward subresource is the real protocol, over WebSocket or only SPDY.
type cluster struct {
	kubeconfig string
	spdyOnly   bool
	absent     string       // pod without a node
	others     []corev1.Pod // without the label
	elsewhere  []corev1.Pod // with the label, in other namespaces

	mu    sync.Mutex
	pods  []corev1.Pod
	links []httpstream.Connection // open forwards
	tasks sync.WaitGroup
}

func newCluster(t *testing.T, spdyOnly bool, pods ...corev1.Pod) *cluster {
	t.Helper()
	c := &cluster{pods: pods, spdyOnly: spdyOnly}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/{ns}/pods", c.list)
	mux.HandleFunc("GET /api/v1/pods", c.listAll)
	mux.HandleFunc("GET /api/v1/namespaces/{ns}", c.namespace)
	mux.HandleFunc("/api/v1/namespaces/{ns}/pods/{pod}/portforward", c.portForward)
	mux.HandleFunc("GET /api/v1/namespaces/{ns}/secrets/{name}", c.secret)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		c.drop()
		server.Close()
		c.tasks.Wait()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})

	c.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
contexts: [{name: c, context: {cluster: c, namespace: bench}}]
current-context: c
`, server.URL)
	if err := os.WriteFile(c.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) list(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ns := r.PathValue("ns"); ns != "bench" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonForbidden, Code: 403, Message: "no access to " + ns})
		return
	}
	pods := c.pods
	if r.URL.Query().Get("labelSelector") != DefaultLabel {
		pods = c.others
	}
	reply(w, corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: pods})
}

// listAll lists the pods of all namespaces.
func (c *cluster) listAll(w http.ResponseWriter, r *http.Request) {
	reply(w, corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: c.elsewhere})
}

// namespace knows of none.
func (c *cluster) namespace(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404})
}

func (c *cluster) secret(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	data := map[string][]byte{"token": []byte("s3cret of " + name + "\n")}
	if name != "empty" {
		for key, file := range map[string]string{"tls.crt": "crt", "tls.key": "key", "ca.crt": "ca"} {
			data[key] = []byte(file + " of " + name)
		}
	}
	reply(w, corev1.Secret{TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}, Data: data})
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

// portForward speaks the server's side of the protocol, and plays the node.
func (c *cluster) portForward(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("pod") == c.absent {
		http.Error(w, "pod has no host assigned", http.StatusBadRequest)
		return
	}
	streams := make(chan httpstream.Stream, 8)
	accept := func(s httpstream.Stream, replySent <-chan struct{}) error { streams <- s; return nil }

	var link httpstream.Connection
	switch {
	case gorilla.IsWebSocketUpgrade(r) && c.spdyOnly:
		http.Error(w, "no WebSocket here", http.StatusBadRequest)
		return
	case gorilla.IsWebSocketUpgrade(r):
		up := gorilla.Upgrader{Subprotocols: []string{tunnel.WebsocketsSPDYTunnelingPrefix + portforward.PortForwardProtocolV1Name}}
		ws, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		link, err = spdystream.NewServerConnection(portforward.NewTunnelingConnection("server", ws), accept)
		if err != nil {
			return
		}
	default:
		if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			return
		}
		if link = spdystream.NewResponseUpgrader().UpgradeResponse(w, r, accept); link == nil {
			return
		}
	}
	c.mu.Lock()
	c.links = append(c.links, link)
	c.mu.Unlock()
	defer link.Close()

	var failures, data httpstream.Stream
	for failures == nil || data == nil {
		select {
		case s := <-streams:
			if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				failures = s
			} else {
				data = s
			}
		case <-link.CloseChan():
			return
		}
	}
	pod, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", data.Headers().Get(corev1.PortHeader)))
	if err != nil {
		fmt.Fprintf(failures, "pod %s: %v", r.PathValue("pod"), err)
		data.Close()
		failures.Close()
		<-link.CloseChan()
		return
	}
	c.tasks.Go(func() { io.Copy(pod, data); pod.Close() })
	c.tasks.Go(func() { io.Copy(data, pod); data.Close(); failures.Close() })
	<-link.CloseChan()
	pod.Close()
}

// drop breaks every forward there is.
func (c *cluster) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.links {
		l.Close()
	}
	c.links = nil
}

func (c *cluster) set(pods ...corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods = pods
}

// echo is a pod's port that sends back what it gets, until the end of the test.
func echo(t *testing.T) (port int) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			tasks.Go(func() { io.Copy(c, c); c.Close() })
		}
	})
	t.Cleanup(func() { lis.Close(); tasks.Wait() })
	return lis.Addr().(*net.TCPAddr).Port
}

func overBothTransports(t *testing.T, test func(t *testing.T, spdyOnly bool)) {
	t.Run("WebSocket", func(t *testing.T) { test(t, false) })
	t.Run("SPDY", func(t *testing.T) { test(t, true) })
}

func TestForward(t *testing.T) {
	overBothTransports(t, func(t *testing.T, spdyOnly bool) {
		inStatefulSet := func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = p.Name, "kvbench" }
		c := newCluster(t, spdyOnly, pod("kvbench-1"), pod("kvbench-0", inStatefulSet))
		fleet, err := Find(t.Context(), Options{Kubeconfig: c.kubeconfig, Port: echo(t)})
		if err != nil {
			t.Fatal(err)
		}
		if len(fleet.Workers) != 2 || fleet.Workers[0].Name != "kvbench-0" ||
			fleet.Workers[0].Host != "kvbench-0.kvbench.bench.svc" || fleet.Workers[1].Host != "" {
			t.Fatalf("found %v", fleet.Workers)
		}
		conn, err := fleet.Workers[0].Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		message := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB: more than any window or buffer
		go io.WriteString(conn, message)
		got := make([]byte, len(message))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != message {
			t.Fatalf("echo differs (%v)", err)
		}
		conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := conn.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read with a deadline: %v", err)
		}
	})
}

func TestForwardRefused(t *testing.T) {
	overBothTransports(t, func(t *testing.T, spdyOnly bool) {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := lis.Addr().(*net.TCPAddr).Port
		lis.Close()
		c := newCluster(t, spdyOnly, pod("kvbench-0"))
		fleet, err := Find(t.Context(), Options{Kubeconfig: c.kubeconfig, Port: port})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := fleet.Workers[0].Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("the cause is missing: %v", err)
		}
	})
}

// A gRPC connection over a forward that is cut dials again by itself.
func TestForwardDropped(t *testing.T) {
	overBothTransports(t, func(t *testing.T, spdyOnly bool) {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		grpc_health_v1.RegisterHealthServer(server, health.NewServer())
		var tasks sync.WaitGroup
		tasks.Go(func() { server.Serve(lis) })
		t.Cleanup(func() { server.Stop(); tasks.Wait() })

		c := newCluster(t, spdyOnly, pod("kvbench-0"))
		fleet, err := Find(t.Context(), Options{Kubeconfig: c.kubeconfig, Port: lis.Addr().(*net.TCPAddr).Port})
		if err != nil {
			t.Fatal(err)
		}
		client, err := grpc.NewClient("passthrough:///kvbench-0",
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(fleet.Workers[0].DialAddress))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for range 3 {
			for { // a call that was under way when the forward broke fails; the next one does not
				_, err := grpc_health_v1.NewHealthClient(client).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
				if err == nil {
					break
				}
				if status.Code(err) != codes.Unavailable {
					t.Fatal(err)
				}
			}
			c.drop()
		}
	})
}

func TestFindWaits(t *testing.T) {
	c := newCluster(t, false, pod("kvbench-0", probing))
	_, err := Find(t.Context(), Options{Kubeconfig: c.kubeconfig, Wait: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "kvbench-0: ContainersNotReady") {
		t.Fatalf("without patience: %v", err)
	}
	var waited error
	fleet, err := Find(t.Context(), Options{Kubeconfig: c.kubeconfig, Wait: 10 * time.Second, Waiting: func(why error) {
		waited = why
		c.set(pod("kvbench-0"))
	}})
	if err != nil || len(fleet.Workers) != 1 {
		t.Fatalf("found %v, %v", fleet, err)
	}
	if waited == nil || !strings.Contains(waited.Error(), "kvbench-0: ContainersNotReady") {
		t.Errorf("it said that it waits for %v", waited)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Find(ctx, Options{Kubeconfig: c.kubeconfig, Wait: time.Hour, Count: 5}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Verbs that act on a run take the pods as they are, at once.
func TestFindAsTheyAre(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lis.Close() // nothing listens there
	c := newCluster(t, false, pod("kvbench-2", failed), pod("kvbench-1", unscheduled), pod("kvbench-0"))
	c.absent = "kvbench-1"
	fleet, err := Find(t.Context(), Options{Kubeconfig: c.kubeconfig, Port: lis.Addr().(*net.TCPAddr).Port})
	if err != nil || len(fleet.Workers) != 2 {
		t.Fatalf("found %v, %v", fleet, err)
	}
	if _, err := fleet.Workers[1].Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "Unschedulable (0/1 nodes are available)") {
		t.Errorf("to connect to a pod without a node: %v", err)
	}
}

// Without pods, or with too few, nobody waits: more will not come by themselves.
func TestFindNone(t *testing.T) {
	c := newCluster(t, false)
	c.others = []corev1.Pod{pod("tikv-1"), pod("tikv-0")}
	c.elsewhere = []corev1.Pod{pod("kvbench-0"), pod("kvbench-1")}
	for i := range c.elsewhere {
		c.elsewhere[i].Namespace = "fleet"
	}
	for _, test := range []struct { // in this order: each changes what is there
		name   string
		change func()
		opts   Options
		want   string
	}{
		{"elsewhere", func() {}, Options{}, "no pods have label app=kvbench in namespace bench: namespace fleet has 2 (-n fleet); namespace bench has other pods: tikv-0 and 1 more (-l selects by label)"},
		{"nothing here", func() { c.others, c.elsewhere = nil, nil }, Options{}, "there is no namespace bench"},
		{"too few", func() { c.set(pod("kvbench-0")) }, Options{Count: 2}, "2 workers are wanted (--clients, NUM_CLIENTS), 1 are there"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.change()
			test.opts.Kubeconfig, test.opts.Wait = c.kubeconfig, time.Hour
			test.opts.Waiting = func(why error) { t.Errorf("it waits for %v", why) }
			began := time.Now()
			_, err := Find(t.Context(), test.opts)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
			if took := time.Since(began); took > settle+5*time.Second {
				t.Errorf("it took %v", took)
			}
			c.set()
		})
	}
}

func TestFindErrors(t *testing.T) {
	c := newCluster(t, false, pod("kvbench-0"))
	for name, test := range map[string]struct {
		opts Options
		want string
		code int
	}{
		"no kubeconfig": {Options{Kubeconfig: "/nonexistent/kubeconfig"}, "kubeconfig", exitcode.Usage},
		"no context":    {Options{Kubeconfig: c.kubeconfig, Context: "other"}, `"other"`, exitcode.Usage},
		"no selector":   {Options{Kubeconfig: c.kubeconfig, Selector: "a=b=c"}, "label selector a=b=c", exitcode.Usage},
		"no such name":  {Options{Kubeconfig: c.kubeconfig, Namespace: "Kvbench/"}, "namespace Kvbench/", exitcode.Usage},
		"forbidden":     {Options{Kubeconfig: c.kubeconfig, Namespace: "secret"}, "create pods/portforward", exitcode.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Find(t.Context(), test.opts)
			if err == nil || !strings.Contains(err.Error(), test.want) || exitcode.Of(err) != test.code {
				t.Errorf("error %v (code %d) does not contain %q", err, exitcode.Of(err), test.want)
			}
		})
	}
}

// An API server that is not there is named once.
func TestFindUnreachable(t *testing.T) {
	config := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Find(t.Context(), Options{Kubeconfig: config})
	if err == nil || !strings.HasPrefix(err.Error(), "listing pods in namespace default of https://127.0.0.1:1: dial tcp ") {
		t.Errorf("got %v", err)
	}
}

func TestCertificate(t *testing.T) {
	c := newCluster(t, false, pod("kvbench-0", func(p *corev1.Pod) { p.Annotations = map[string]string{ClientTLS: "client"} }))
	fleet, err := Find(t.Context(), Options{Kubeconfig: c.kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	if cert, key, ca, err := fleet.Certificate(t.Context()); string(cert) != "crt of client" || string(key) != "key of client" || string(ca) != "ca of client" || err != nil {
		t.Errorf("got %q, %q, %q, %v", cert, key, ca, err)
	}
	c.set(pod("kvbench-0", func(p *corev1.Pod) { p.Annotations = map[string]string{ClientTLS: "empty"} }))
	if fleet, err = Find(t.Context(), Options{Kubeconfig: c.kubeconfig}); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := fleet.Certificate(t.Context()); err == nil || !strings.Contains(err.Error(), "Secret bench/empty has no key tls.crt") {
		t.Errorf("without its keys: %v", err)
	}
}

func TestToken(t *testing.T) {
	mounts := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{
			{Name: "data"},
			{Name: TokenVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "kvbench-token"}}},
		}
	}
	for name, test := range map[string]struct {
		pod  corev1.Pod
		want string
	}{
		"with a token": {pod("kvbench-0", mounts), "s3cret of kvbench-token"},
		"without":      {pod("kvbench-0"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, false, test.pod)
			fleet, err := Find(t.Context(), Options{Kubeconfig: c.kubeconfig})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := fleet.Token(t.Context()); got != test.want || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
