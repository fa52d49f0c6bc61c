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
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Names that the manifests in k8s/kvbench and this package agree on.
const (
	ControlPort  = "control"     // container port on which a worker is controlled
	DefaultLabel = "app=kvbench" // selector of the worker pods
	TokenVolume  = "token"       // volume of the pod that holds the control token
	TokenKey     = "token"       // key of the token in that volume's Secret
)

// Options say which pods are the workers.
type Options struct {
	Kubeconfig string        // file; empty: $KUBECONFIG, ~/.kube/config, or inside a pod its service account
	Context    string        // of the kubeconfig; empty: the current one
	Namespace  string        // empty: that of the context
	Selector   string        // label selector; empty: DefaultLabel
	Port       int           // control port; 0: the container port named ControlPort
	Count      int           // so many pods are enough; 0: every pod that matches
	Wait       time.Duration // how long pods may take to become ready; 0: they must be ready now
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

	api    *api
	secret string // that holds the pods' token; empty: they have none
}

// Find returns the pods that opts describe, once they are ready. When they are
// not within opts.Wait, the error says of each pod what it waits for.
func Find(ctx context.Context, opts Options) (*Fleet, error) {
	if opts.Selector == "" {
		opts.Selector = DefaultLabel
	}
	a, err := connect(opts)
	if err != nil {
		return nil, err
	}
	pods, err := a.ready(ctx, opts)
	if err != nil {
		return nil, err
	}
	fleet := &Fleet{api: a, secret: tokenSecret(&pods[0])}
	for i := range pods {
		port, err := controlPort(&pods[i], opts.Port)
		if err != nil {
			return nil, err
		}
		name := pods[i].Name
		fleet.Workers = append(fleet.Workers, Worker{
			Name: name,
			Host: a.host(&pods[i]),
			Dial: func(ctx context.Context) (net.Conn, error) { return a.forward(ctx, name, port) },
		})
	}
	return fleet, nil
}

// Token reads the control token from the Secret that the pods mount, so that who
// may read the namespace's Secrets need not be told the token. It is empty when
// the pods mount none (they use TLS).
func (f *Fleet) Token(ctx context.Context) (string, error) {
	if f.secret == "" {
		return "", nil
	}
	var secret corev1.Secret
	err := f.api.client.Get().Namespace(f.api.namespace).Resource("secrets").Name(f.secret).Do(ctx).Into(&secret)
	if err != nil {
		return "", fmt.Errorf("reading the token from Secret %s/%s (--token-file gives it instead): %w", f.api.namespace, f.secret, err)
	}
	token := strings.TrimSpace(string(secret.Data[TokenKey]))
	if token == "" {
		return "", fmt.Errorf("Secret %s/%s has no key %q", f.api.namespace, f.secret, TokenKey)
	}
	return token, nil
}

// api is the part of a cluster's API that this package uses: pods and Secrets of
// one namespace.
type api struct {
	config    *rest.Config
	client    *rest.RESTClient
	namespace string
}

func connect(opts Options) (*api, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = opts.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: opts.Context}
	overrides.Context.Namespace = opts.Namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)

	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
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
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return &api{config, client, namespace}, nil
}

// pollEvery is how often pods that are not ready yet are looked at.
const pollEvery = 250 * time.Millisecond

// ready waits for the pods.
func (a *api) ready(ctx context.Context, opts Options) ([]corev1.Pod, error) {
	deadline := time.Now().Add(opts.Wait)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		pods, err := a.list(ctx, opts.Selector)
		if err != nil {
			return nil, err
		}
		ready, err := choose(pods, opts.Count)
		if err == nil {
			return ready, nil
		}
		err = fmt.Errorf("pods with label %s in namespace %s: %w", opts.Selector, a.namespace, err)
		if time.Now().After(deadline) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

func (a *api) list(ctx context.Context, selector string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := a.client.Get().Namespace(a.namespace).Resource("pods").Param("labelSelector", selector).Do(ctx).Into(&list)
	switch {
	case err == nil:
		return list.Items, nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%w (needed: get and list pods, create pods/portforward, get secrets; see the Role in k8s/kvbench)", err)
	default:
		return nil, fmt.Errorf("listing pods in namespace %s of %s: %w", a.namespace, a.config.Host, err)
	}
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
