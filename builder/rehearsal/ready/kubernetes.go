package ready

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"spore/wire/nodeapi"
)

const (
	// serverName is in the certificate of every API server, whatever port of this host leads to it.
	serverName = "kubernetes"
	// maxNode bounds a Node object: etcd takes no larger one, in bytes.
	maxNode = 2 << 20
	// perServer bounds what one API server is waited for.
	perServer = 10 * time.Second
)

// Kubernetes asks API servers what they hold of nodes.
type Kubernetes struct {
	http *http.Client
}

// NewKubernetes asks with a client certificate and its key, all PEM.
func NewKubernetes(certificate, key, authorities []byte) (*Kubernetes, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("certificate for the Kubernetes API: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authorities) {
		return nil, errors.New("the operator's folder lacks the authority kubernetes-server")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName, RootCAs: roots, Certificates: []tls.Certificate{pair}}
	// A machine that was cut off leaves connections that nobody answers on.
	return &Kubernetes{&http.Client{Timeout: perServer, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}}, nil
}

// Lacks is what keeps a node from being Ready, asked of the first server that answers: HOST:PORT. What Kubernetes holds
// of a node outlives it. Since is when the machine was started, and only what the kubelet has said after that is taken.
func (k *Kubernetes) Lacks(ctx context.Context, servers []string, node string, since time.Time) []Lack {
	if len(servers) == 0 {
		return lack("no control plane runs that could be asked")
	}
	var err error
	for _, server := range servers {
		var data []byte
		if data, err = k.get(ctx, server, node); err == nil {
			return judge(data, since)
		}
	}
	return lack(err.Error())
}

func lack(reason string) []Lack { return []Lack{{"Kubernetes", reason}} }

var errUnknown = errors.New("Kubernetes does not know the node yet")

// get reads the Node object.
func (k *Kubernetes) get(ctx context.Context, server, node string) ([]byte, error) {
	u := url.URL{Scheme: "https", Host: server, Path: "/api/v1/nodes/" + node}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	res, err := k.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the API server: %w", err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotFound:
		return nil, errUnknown
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the API server answers %s", res.Status)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxNode+1))
	if err == nil && len(data) > maxNode {
		err = fmt.Errorf("the API server's answer has more than %d bytes", maxNode)
	}
	return data, err
}

// judge reads the condition Ready of a Node object (k8s.io/api/core/v1, NodeStatus).
func judge(data []byte, since time.Time) []Lack {
	var object struct {
		Status struct {
			Conditions []struct {
				Type      string    `json:"type"`
				Status    string    `json:"status"`
				Heartbeat time.Time `json:"lastHeartbeatTime"`
				Reason    string    `json:"reason"`
				Message   string    `json:"message"`
			} `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return lack("the API server's answer is not a Node: " + err.Error())
	}
	for _, c := range object.Status.Conditions {
		switch {
		case c.Type != "Ready":
		case c.Heartbeat.Before(since.Truncate(time.Second)): // Its times have whole seconds.
			return lack("its kubelet has not reported since the machine was started")
		case c.Status == "True":
			return nil
		default:
			return lack("the node is not Ready: " + nodeapi.Harmless(cmp.Or(c.Message, c.Reason, c.Status)))
		}
	}
	return lack("its kubelet has not reported yet")
}
