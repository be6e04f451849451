// Package service reads the metrics of the node's services, each where its configuration has it listen: on loopback, on
// a socket, or, for kubelet, on the node's own address. It shows the certificate or the password that the node has for
// the purpose already, and takes the families of a table (Table) alone. Programs of ours that listen to nobody write
// what they tell into a file.
package service

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sys/unix"

	"spore/agent/metrics/ask"
	"spore/agent/metrics/exposition"
	"spore/agent/metrics/family"
	"spore/agent/metrics/source"
	"spore/agent/paths"
	"spore/services/dns"
	"spore/services/kubernetes"
	"spore/services/logs"
	"spore/services/metrics"
	"spore/storage/atomicfile"
)

// maxSecret bounds a certificate, a key and a file of authorities, in bytes.
const maxSecret = 1 << 20

// maxAge is how old what a program has written may be: programs write each 15 seconds, and VictoriaLogs' keeper once a
// minute.
const maxAge = 3 * time.Minute

// Endpoint is where a program tells its metrics.
type Endpoint struct {
	// Program is the row of package services.
	Program string
	// URL is asked; {address} stands for the node's. One that is asked by a socket has any host.
	URL    string
	Socket string
	// Holder and Leaf are whose certificate is shown: the program whose secrets have it, and its entry there. A node
	// without it asks nothing. Authority is who signed the certificate of the program.
	Holder, Leaf, Authority string
	// Pair is a file with a certificate and its key, below the root. It is shown by nodes without the holder.
	Pair string
	// Name is the name that the program's certificate has to have, where the address is not in it.
	Name string
	// File is what the program writes several times a minute, besides what it answers at the URL, or instead of it.
	File string
	// Password is the entry of Holder that the program wants: of User, or as a bearer token where User is empty.
	User, Password string
}

// agentLeaf is the certificate by which a master's agent works with the API.
const agentHolder, agentLeaf = "kubernetes-bootstrap", "kubernetes-agent"

// kubeletPair is the certificate by which a kubelet works with the API. On a worker it is shown to the kubelet itself,
// which asks the API whether it may see its own metrics (package kubeapi, measureObjects).
const kubeletPair = "/var/lib/kubelet/pki/kubelet-client-current.pem"

// Endpoints is the table. The rights of the agent of masters include the metrics of all programs of Kubernetes.
func Endpoints() []Endpoint {
	secure := func(program, host string, port int, authority string) Endpoint {
		return Endpoint{
			Program: program, URL: fmt.Sprintf("https://%s:%d/metrics", host, port),
			Holder: agentHolder, Leaf: agentLeaf, Authority: authority,
		}
	}
	plain := func(program string, port int, path string) Endpoint {
		return Endpoint{Program: program, URL: fmt.Sprintf("http://127.0.0.1:%d%s", port, path)}
	}
	// The programs of the role alerts know each other by a password.
	alerts := func(program string, port int, user string) Endpoint {
		e := plain(program, port, "/metrics")
		e.Holder, e.User, e.Password = program, user, metrics.AlertsPassword
		return e
	}
	store := plain(logs.Program, logs.Port, "/metrics")
	store.Holder, store.User, store.Password = logs.Program, logs.User, logs.PasswordEntry
	store.File = "/run/victoria-logs/metrics.prom"
	kubelet := secure("kubelet", "{address}", kubernetes.PortKubelet, "kubelet-serving")
	kubelet.Pair = kubeletPair
	return []Endpoint{
		alerts(metrics.Manager, metrics.PortManager, metrics.User),
		plain("calico-node", kubernetes.PortFelixMetrics, "/metrics"),
		plain("cluster-dns", kubernetes.PortClusterDNSMetrics, "/metrics"),
		plain("containerd", kubernetes.PortContainerdMetrics, "/v1/metrics"),
		plain("coredns", dns.PortMetrics, "/metrics"),
		{Program: "etcd", URL: "http://etcd/metrics", Socket: "/run/etcd/client.sock"},
		secure("kube-apiserver", "127.0.0.1", kubernetes.PortAPI, "kubernetes-server"),
		secure("kube-controller-manager", "127.0.0.1", kubernetes.PortControllerManager, "kubernetes-server"),
		secure("kube-scheduler", "127.0.0.1", kubernetes.PortScheduler, "kubernetes-server"),
		kubelet,
		plain("kube-proxy", kubernetes.PortProxyMetrics, "/metrics"),
		alerts(metrics.Bridge, metrics.PortBridge, ""),
		{Program: logs.Sender, File: "/run/spore-logs/metrics.prom"},
		{Program: logs.Taker, File: "/run/spore-logs-store/metrics.prom"},
		store,
		alerts(metrics.Evaluator, metrics.PortEvaluator, metrics.User),
	}
}

// Sources are the services as sources, below root.
func Sources(root paths.Root, endpoints []Endpoint) []source.Source {
	rows := Table()
	var out []source.Source
	for _, e := range endpoints {
		r := &reader{root: root, endpoint: e, rows: rows[e.Program]}
		out = append(out, source.Source{
			Name: e.Program,
			On: func(q ask.Question) bool {
				// Only a master has the certificate by which it asks the programs of Kubernetes.
				certificate := e.Holder == "" || e.Pair != "" || slices.Contains(q.Programs, e.Holder)
				return slices.Contains(q.Programs, e.Program) && certificate
			},
			Ask: r.ask,
		})
	}
	return out
}

// Programs are those with rows, sorted.
func Programs() []string { return slices.Sorted(maps.Keys(table)) }

// Families are the rows of all services, as they are told: with the label of the program.
func Families() []family.Family {
	var out []family.Family
	rows := Table()
	for _, program := range Programs() {
		for _, f := range rows[program] {
			f.Labels = append([]string{"program"}, f.Labels...)
			out = append(out, f)
		}
	}
	return out
}

// reader asks one service.
type reader struct {
	root     paths.Root
	endpoint Endpoint
	rows     []family.Family
}

// ask reads the metrics of the service.
func (r *reader) ask(ctx context.Context, q ask.Question) ([]*dto.MetricFamily, error) {
	var all []*dto.MetricFamily
	var errs []error
	add := func(families []*dto.MetricFamily, err error) {
		all, errs = append(all, families...), append(errs, err)
	}
	if r.endpoint.File != "" {
		add(r.file())
	}
	if r.endpoint.URL != "" {
		add(r.answer(ctx, q))
	}
	return source.Of(r.endpoint.Program, all), errors.Join(errs...)
}

// file reads what the program has written. The folder is the program's: it may put anything there.
func (r *reader) file() ([]*dto.MetricFamily, error) {
	f, err := os.OpenFile(r.root.At(r.endpoint.File), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open what it has written: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at what it has written: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", r.endpoint.File)
	}
	if age := time.Since(info.ModTime()); age > maxAge {
		return nil, fmt.Errorf("it has written nothing for %s", age.Round(time.Second))
	}
	return exposition.Read(f, r.rows)
}

// answer asks the program. Each time has a connection of its own: certificates change, and services are restarted.
func (r *reader) answer(ctx context.Context, q ask.Question) ([]*dto.MetricFamily, error) {
	transport, err := r.transport(q)
	if err != nil {
		return nil, err
	}
	defer transport.CloseIdleConnections()
	url := r.endpoint.URL
	if strings.Contains(url, "{address}") {
		if q.Address == "" {
			return nil, errors.New("the node has no address in cluster.yaml")
		}
		host := q.Address
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		url = strings.ReplaceAll(url, "{address}", host)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4")
	if err := r.authorize(request); err != nil {
		return nil, err
	}
	client := http.Client{
		Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Encoding") != "" {
		return nil, fmt.Errorf("it answers %d", answer.StatusCode)
	}
	return exposition.Read(answer.Body, r.rows)
}

// authorize adds the password that the service wants.
func (r *reader) authorize(request *http.Request) error {
	if r.endpoint.Password == "" {
		return nil
	}
	data, err := r.secret(r.endpoint.Password)
	if err != nil {
		return fmt.Errorf("the password of %s: %w", r.endpoint.Program, err)
	}
	password := strings.TrimSpace(string(data))
	if r.endpoint.User == "" {
		request.Header.Set("Authorization", "Bearer "+password)
		return nil
	}
	request.SetBasicAuth(r.endpoint.User, password)
	return nil
}

func (r *reader) transport(q ask.Question) (*http.Transport, error) {
	t := &http.Transport{DisableCompression: true, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	if r.endpoint.Socket != "" {
		at := r.root.At(r.endpoint.Socket)
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", at)
		}
	}
	if r.endpoint.Leaf == "" {
		return t, nil
	}
	pair, err := r.pair(q)
	if err != nil {
		return nil, fmt.Errorf("the certificate that is shown to %s: %w", r.endpoint.Program, err)
	}
	authority, err := atomicfile.ReadLimited(r.root.At(filepath.Join(paths.Trust, r.endpoint.Authority+".crt")), maxSecret)
	if err != nil {
		return nil, fmt.Errorf("the authority of %s: %w", r.endpoint.Program, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("the authority of %s: %s.crt has no certificate", r.endpoint.Program, r.endpoint.Authority)
	}
	t.TLSClientConfig = &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12, ServerName: r.endpoint.Name,
	}
	return t, nil
}

// pair is the certificate that is shown.
func (r *reader) pair(q ask.Question) (tls.Certificate, error) {
	if r.endpoint.Pair != "" && !slices.Contains(q.Programs, r.endpoint.Holder) {
		both, err := atomicfile.ReadLimited(r.root.At(r.endpoint.Pair), maxSecret)
		if err != nil {
			return tls.Certificate{}, err
		}
		return tls.X509KeyPair(both, both)
	}
	certificate, err := r.secret(r.endpoint.Leaf + "-certificate")
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := r.secret(r.endpoint.Leaf + "-key")
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, key)
}

// secret is an entry of the program that has the certificate: what was renewed, else what it was started with.
func (r *reader) secret(ref string) ([]byte, error) {
	data, err := atomicfile.ReadLimited(r.root.At(filepath.Join(paths.Live, r.endpoint.Holder, ref)), maxSecret)
	if err != nil {
		data, err = atomicfile.ReadLimited(r.root.At(filepath.Join(paths.Secrets, r.endpoint.Holder, ref)), maxSecret)
	}
	return data, err
}
