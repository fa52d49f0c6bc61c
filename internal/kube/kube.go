// SPDX-License-Identifier: Apache-2.0

// Package kube finds worker pods in a Kubernetes cluster and reaches their
// control port from outside of it, with nothing but a kubeconfig: no kubectl, no
// exec, no load balancer. A connection to a pod goes through the API server, as
// that of kubectl port-forward does, but without a local port: [Worker.Dial]
// hands out a net.Conn. Each call makes its own, to the pod that has the name at
// that moment, so whoever dials again after a connection broke (as gRPC does)
// survives a dropped forward, and a pod that was replaced.
package kube

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kvbench/kvbench/internal/exitcode"
)

// Names that the manifests in k8s/kvbench and this package agree on.
const (
	ControlPort  = "control"     // container port on which a worker is controlled
	DefaultLabel = "app=kvbench" // selector of the worker pods
	TokenVolume  = "token"       // volume of the pod that holds the control token
	TokenKey     = "token"       // key of the token in that volume's Secret

	// ClientTLS is the annotation of a pod that names the Secret with the
	// coordinators' certificate (tls.crt, tls.key, and ca.crt of the workers').
	ClientTLS = "kvbench-client-tls"
)

// Options say which pods are the workers.
type Options struct {
	Kubeconfig string        // file; empty: $KUBECONFIG, ~/.kube/config, or inside a pod its service account
	Context    string        // of the kubeconfig; empty: the current one
	Namespace  string        // empty: that of the context
	Selector   string        // label selector; empty: DefaultLabel
	Port       int           // control port; 0: the container port named ControlPort
	Count      int           // so many pods are enough; 0: every pod that matches
	Wait       time.Duration // how long pods that are there may take to become ready; 0: all are taken as they are
	Waiting    func(error)   // told once what is waited for; nil: nobody is
}

// Worker is one worker pod.
type Worker struct {
	Name string // of the pod
	Host string // the pod's name in the cluster's DNS, which its certificate carries; empty: it has none
	// Dial connects to the worker's control port. It may be called any number of
	// times, also when the pod has since been replaced by another of that name.
	Dial func(context.Context) (net.Conn, error)
}

// DialAddress is Dial in the form that gRPC asks for; the address is not looked at.
func (w Worker) DialAddress(ctx context.Context, _ string) (net.Conn, error) { return w.Dial(ctx) }

// Fleet is the set of worker pods found, in the order of their ordinals
// (kvbench-2 before kvbench-10).
type Fleet struct {
	Workers []Worker

	api *api
	pod *corev1.Pod // any of them, which says where the credentials are
}

// Find returns the pods that opts describe, once they are ready. When they are
// not within opts.Wait, the error says of each pod what it waits for; when there are
// no such pods, or too few, it comes within seconds and says what there is instead.
//
// Without a Wait it returns every pod as it is, for verbs that act on a run which goes
// on: to connect to one that is not ready fails with what it waits for.
func Find(ctx context.Context, opts Options) (*Fleet, error) {
	a, err := connect(&opts)
	if err != nil {
		return nil, err
	}
	pods, err := a.find(ctx, opts)
	if err != nil {
		return nil, err
	}
	return a.fleet(pods, opts.Port)
}

// fleet makes workers of pods.
func (a *api) fleet(pods []corev1.Pod, port int) (*Fleet, error) {
	fleet := &Fleet{api: a, pod: &pods[0]}
	for i := range pods {
		port, err := controlPort(&pods[i], port)
		if err != nil {
			return nil, err
		}
		name, why := pods[i].Name, unready(&pods[i])
		fleet.Workers = append(fleet.Workers, Worker{
			Name: name,
			Host: a.host(&pods[i]),
			Dial: func(ctx context.Context) (net.Conn, error) {
				conn, err := a.forward(ctx, name, port)
				if err != nil && why != "" {
					err = fmt.Errorf("its pod was not ready: %s; now: %w", why, err)
				}
				return conn, err
			},
		})
	}
	return fleet, nil
}

// Token reads the control token from the Secret that the pods mount, so that who
// may read the namespace's Secrets need not be told the token. It is empty when
// the pods mount none (they use TLS).
func (f *Fleet) Token(ctx context.Context) (string, error) {
	name := tokenSecret(f.pod)
	if name == "" {
		return "", nil
	}
	data, err := f.api.secret(ctx, name, "the token", "--token-file gives it", TokenKey)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(data[TokenKey])), nil
}

// Certificate reads the coordinators' certificate, its key and the authority of the
// workers' certificates, all PEM, from the Secret that the pods' annotation
// [ClientTLS] names. All are nil when there is none.
func (f *Fleet) Certificate(ctx context.Context) (cert, key, ca []byte, err error) {
	name := f.pod.Annotations[ClientTLS]
	if name == "" {
		return nil, nil, nil, nil
	}
	data, err := f.api.secret(ctx, name, "the coordinators' certificate", "--tls-cert, --tls-key and --tls-ca give it",
		corev1.TLSCertKey, corev1.TLSPrivateKeyKey, corev1.ServiceAccountRootCAKey)
	if err != nil {
		return nil, nil, nil, err
	}
	return data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], data[corev1.ServiceAccountRootCAKey], nil
}

// secret reads a Secret that must have the keys, each with something in it.
func (a *api) secret(ctx context.Context, name, what, instead string, keys ...string) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var secret corev1.Secret
	err := a.client.Get().Namespace(a.namespace).Resource("secrets").Name(name).Do(ctx).Into(&secret)
	if err != nil {
		return nil, fmt.Errorf("reading %s from Secret %s/%s (%s instead): %w", what, a.namespace, name, instead, err)
	}
	for _, key := range keys {
		if len(bytes.TrimSpace(secret.Data[key])) == 0 {
			return nil, fmt.Errorf("Secret %s/%s has no key %s (%s instead)", a.namespace, name, key, instead)
		}
	}
	return secret.Data, nil
}

// api is the part of a cluster's API that this package uses: pods and Secrets of
// one namespace.
type api struct {
	config    *rest.Config
	client    *rest.RESTClient
	namespace string
}

// connect checks the options, sets those that are empty, and makes a client. It does not
// speak to the cluster yet.
func connect(opts *Options) (*api, error) {
	opts.Selector = cmp.Or(opts.Selector, DefaultLabel)
	if _, err := labels.Parse(opts.Selector); err != nil {
		return nil, exitcode.With(exitcode.Usage, fmt.Errorf("label selector %s: %w", opts.Selector, err))
	}
	if opts.Namespace != "" && len(validation.IsDNS1123Label(opts.Namespace)) > 0 {
		return nil, exitcode.With(exitcode.Usage, fmt.Errorf("namespace %s: a name has at most 63 lowercase letters, digits and '-', and begins and ends with none of the latter", opts.Namespace))
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = opts.Kubeconfig
	if err := plain(rules); err != nil {
		return nil, exitcode.With(exitcode.Usage, err)
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: opts.Context}
	overrides.Context.Namespace = opts.Namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)

	config, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, exitcode.With(exitcode.Usage, errors.New("there is no kubeconfig: --kubeconfig or KUBECONFIG names one"))
	case err != nil:
		return nil, exitcode.With(exitcode.Usage, fmt.Errorf("kubeconfig: %w", err))
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, exitcode.With(exitcode.Usage, fmt.Errorf("kubeconfig: %w", err))
	}

	// A client for the core group alone: the full clientset would bring every
	// Kubernetes API into the binary.
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.UserAgent = "kvbench"
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, exitcode.With(exitcode.Usage, fmt.Errorf("kubeconfig: %w", err))
	}
	return &api{config, client, namespace}, nil
}

const (
	pollEvery   = 250 * time.Millisecond // how often pods that are not ready yet are looked at
	settle      = 3 * time.Second        // how long pods that were just asked for take to be there
	callTimeout = 10 * time.Second       // for one answer of the API server
)

// find returns the pods, once they are ready if that is waited for.
func (a *api) find(ctx context.Context, opts Options) ([]corev1.Pod, error) {
	began := time.Now()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		pods, err := a.list(ctx, a.namespace, opts.Selector)
		if err != nil {
			return nil, err
		}
		pods = living(pods)
		chosen := pods
		if opts.Wait > 0 {
			chosen, err = choose(pods, opts.Count)
		}
		if err == nil && len(pods) > 0 {
			return chosen, nil
		}
		patience := opts.Wait
		if len(pods) == 0 || len(pods) < opts.Count {
			patience = min(patience, settle)
		}
		switch waited := time.Since(began); {
		case waited < patience:
		case len(pods) == 0:
			return nil, a.none(ctx, opts.Selector)
		default:
			return nil, a.lacking(opts, err)
		}
		if len(pods) > 0 && len(pods) >= opts.Count && opts.Waiting != nil {
			opts.Waiting(a.lacking(opts, err))
			opts.Waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

func (a *api) lacking(opts Options, err error) error {
	return fmt.Errorf("pods with label %s in namespace %s: %w", opts.Selector, a.namespace, err)
}

// list returns the pods of a namespace; of all, if that is empty.
func (a *api) list(ctx context.Context, namespace, selector string) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var list corev1.PodList
	err := a.client.Get().Namespace(namespace).Resource("pods").Param("labelSelector", selector).Do(ctx).Into(&list)
	switch {
	case err == nil:
		return list.Items, nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%w (needed: get and list pods, create pods/portforward, get secrets; see the Role in k8s/kvbench)", err)
	default:
		if call := new(url.Error); errors.As(err, &call) {
			err = call.Err // without the address once more
		}
		return nil, fmt.Errorf("listing pods in namespace %s of %s: %w", namespace, a.config.Host, err)
	}
}

// none is the error of a namespace without such pods. It says what there is, as far as
// the user may see that.
func (a *api) none(ctx context.Context, selector string) error {
	var hints []string
	if everywhere, err := a.list(ctx, "", selector); err == nil {
		count := make(map[string]int)
		for _, pod := range everywhere {
			count[pod.Namespace]++
		}
		for _, ns := range slices.Sorted(maps.Keys(count)) {
			hints = append(hints, fmt.Sprintf("namespace %s has %d (-n %[1]s)", ns, count[ns]))
		}
	}
	if others, err := a.list(ctx, a.namespace, ""); err == nil && len(others) > 0 {
		slices.SortFunc(others, byOrdinal)
		names := others[0].Name
		if len(others) > 1 {
			names += fmt.Sprintf(" and %d more", len(others)-1)
		}
		hints = append(hints, fmt.Sprintf("namespace %s has other pods: %s (-l selects by label)", a.namespace, names))
	} else if err == nil {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		var ns corev1.Namespace
		if err := a.client.Get().Resource("namespaces").Name(a.namespace).Do(ctx).Into(&ns); apierrors.IsNotFound(err) {
			hints = append(hints, fmt.Sprintf("there is no namespace %s", a.namespace))
		}
	}
	if len(hints) == 0 {
		hints = []string{"kubectl apply -k k8s/kvbench starts some, -n and -l name others"}
	}
	return fmt.Errorf("no pods have label %s in namespace %s: %s", selector, a.namespace, strings.Join(hints, "; "))
}

// forwardURL is the address of a pod's port-forward subresource.
func (a *api) forwardURL(pod string) string {
	return a.client.Verb(http.MethodPost).Namespace(a.namespace).Resource("pods").Name(pod).SubResource("portforward").URL().String()
}

// host returns the name that the pod of a StatefulSet has in the cluster's DNS.
func (a *api) host(pod *corev1.Pod) string {
	if pod.Spec.Hostname == "" || pod.Spec.Subdomain == "" {
		return ""
	}
	return pod.Spec.Hostname + "." + pod.Spec.Subdomain + "." + a.namespace + ".svc"
}

// tokenSecret returns the name of the Secret that holds a pod's control token.
func tokenSecret(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Volumes {
		if v.Name == TokenVolume && v.Secret != nil {
			return v.Secret.SecretName
		}
	}
	return ""
}
