package service

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/agent/metrics/ask"
	"spore/agent/metrics/exposition"
	"spore/agent/metrics/family"
	"spore/agent/paths"
	"spore/test/testca"
)

// asked asks a kube-proxy that answers by h.
func asked(t *testing.T, h http.HandlerFunc) ([]*dto.MetricFamily, error) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	sources := Sources(paths.Root(t.TempDir()), []Endpoint{{Program: "kube-proxy", URL: server.URL}})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return sources[0].Ask(ctx, ask.Question{})
}

const goroutines = "# TYPE go_goroutines gauge\ngo_goroutines 7\n"

func TestAServiceTellsTheFamiliesOfItsTable(t *testing.T) {
	all, err := asked(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "text/plain;version=0.0.4", r.Header.Get("Accept"))
		_, _ = io.WriteString(w, "# TYPE secret gauge\nsecret{key=\"x\"} 1\n"+goroutines)
	})
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "program", all[0].Metric[0].Label[0].GetName())
	require.Equal(t, "kube-proxy", all[0].Metric[0].Label[0].GetValue())
}

func TestAHostileServiceCostsItsOwnRows(t *testing.T) {
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"it refuses": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, "it answers 403"},
		"it leads elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/metrics", http.StatusFound)
		}, "it answers 302"},
		"its answer is compressed": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, goroutines)
		}, "it answers 200"},
		"it answers 100 MiB": {func(w http.ResponseWriter, _ *http.Request) {
			line := []byte(goroutines + "evil{a=\"" + strings.Repeat("x", 1<<16) + "\"} 1\n")
			for n := 0; n < 100<<20; n += len(line) {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		}, exposition.ErrTooLong.Error()},
		"its header is 1 MiB": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}, "exceeded"},
		"its text is malformed": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "# TYPE go_goroutines gauge\ngo_goroutines{a=\"\xff\n\"} 7\n")
		}, "go_goroutines: the text is malformed"},
		"it ends in the middle": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, goroutines)
		}, "read the answer"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := asked(t, tt.answer)
			require.ErrorContains(t, err, tt.want)
			require.Less(t, len(err.Error()), 1000)
			require.Empty(t, all)
		})
	}
}

func TestAServiceThatHangsIsGivenUp(t *testing.T) {
	for name, first := range map[string]string{"at once": "", "in the middle": goroutines} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, first)
				if first != "" {
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
			}))
			t.Cleanup(server.Close)
			sources := Sources(paths.Root(t.TempDir()), []Endpoint{{Program: "kube-proxy", URL: server.URL}})
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			all, err := sources[0].Ask(ctx, ask.Question{})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Empty(t, all)
		})
	}
}

func TestAServiceIsAskedByItsSocket(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "run/etcd"), 0o755))
	l, err := net.Listen("unix", filepath.Join(root, "run/etcd/client.sock"))
	require.NoError(t, err)
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, goroutines)
	})}}
	server.Start()
	t.Cleanup(server.Close)
	for _, s := range Sources(paths.Root(root), Endpoints()) {
		if s.Name == "etcd" {
			all, err := s.Ask(t.Context(), ask.Question{})
			require.NoError(t, err)
			require.Len(t, all, 1)
		}
	}
}

func TestOnlyWhatANodeRunsIsAsked(t *testing.T) {
	on := func(programs ...string) (names []string) {
		for _, s := range Sources("/", Endpoints()) {
			if s.On(ask.Question{Programs: programs}) {
				names = append(names, s.Name)
			}
		}
		return names
	}
	require.Empty(t, on())
	require.Empty(t, on("mosquitto"))
	require.Equal(t, []string{"coredns"}, on("coredns"))
	require.Equal(t, []string{"alertmanager", "spore-alerts", "vmalert"}, on("alertmanager", "vmalert", "spore-alerts"))
	require.Equal(t, []string{"kubelet", "kube-proxy"}, on("kubelet", "kube-proxy"), "a worker")
	require.Equal(t, []string{"kube-proxy"}, on("kube-apiserver", "kube-proxy"), "it has no certificate for the API")
	require.Equal(t, []string{"etcd", "kubelet"}, on("etcd", "kubelet", "kubernetes-bootstrap"))
}

func TestWithoutItsCertificateAServiceIsNotAsked(t *testing.T) {
	for _, s := range Sources(paths.Root(t.TempDir()), Endpoints()) {
		if s.Name == "kube-apiserver" {
			_, err := s.Ask(t.Context(), ask.Question{})
			require.ErrorContains(t, err, "the certificate that is shown to kube-apiserver")
		}
	}
}

// TestAServiceGetsThePasswordThatItWants asks the programs of the role alerts, each with the password of its own
// secrets.
func TestAServiceGetsThePasswordThatItWants(t *testing.T) {
	wants := map[string]string{
		"alertmanager": "Basic c3BvcmU6c3dvcmRmaXNo", "vmalert": "Basic c3BvcmU6c3dvcmRmaXNo", "spore-alerts": "Bearer swordfish",
		"victoria-logs": "Basic c3BvcmU6c3dvcmRmaXNo",
	}
	for _, e := range Endpoints() {
		want := wants[e.Program]
		if want == "" {
			require.Empty(t, e.Password, e.Program)
			continue
		}
		t.Run(e.Program, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				require.Equal(t, want, r.Header.Get("Authorization"))
			}))
			t.Cleanup(server.Close)
			root := paths.Root(t.TempDir())
			e.URL, e.File = server.URL, ""
			source := Sources(root, []Endpoint{e})[0]
			_, err := source.Ask(t.Context(), ask.Question{})
			require.ErrorContains(t, err, "the password of "+e.Program)
			require.Zero(t, asked, "nobody is asked without it")
			at := root.At(filepath.Join(paths.Secrets, e.Program, e.Password))
			require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o700))
			require.NoError(t, os.WriteFile(at, []byte("swordfish\n"), 0o600))
			_, err = source.Ask(t.Context(), ask.Question{})
			require.NoError(t, err)
			require.Equal(t, 1, asked)
		})
	}
}

// written is a program that has written a file a while ago, and which may answer, too.
func written(t *testing.T, put func(at string), url string) ([]*dto.MetricFamily, error) {
	t.Helper()
	root := paths.Root(t.TempDir())
	at := root.At("/run/kube-proxy/metrics.prom")
	require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
	put(at)
	source := Sources(root, []Endpoint{{Program: "kube-proxy", File: "/run/kube-proxy/metrics.prom", URL: url}})[0]
	require.True(t, source.On(ask.Question{Programs: []string{"kube-proxy"}}))
	require.False(t, source.On(ask.Question{Programs: []string{"etcd"}}))
	return source.Ask(t.Context(), ask.Question{})
}

func TestAProgramMayWriteWhatItTells(t *testing.T) {
	text := func(text string) func(at string) {
		return func(at string) { require.NoError(t, os.WriteFile(at, []byte(text), 0o600)) }
	}
	const started = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 5\n"
	all, err := written(t, text(goroutines+"secret 1\n"), "")
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "kube-proxy", all[0].Metric[0].Label[0].GetValue())

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, started) }))
	t.Cleanup(server.Close)
	all, err = written(t, text(goroutines), server.URL)
	require.NoError(t, err)
	require.Len(t, all, 2, "what it has written, and what it answers")
	all, err = written(t, func(string) {}, server.URL)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Len(t, all, 1, "what it answers is told all the same")
	all, err = written(t, text(goroutines), "http://127.0.0.1:1/metrics")
	require.ErrorContains(t, err, "connection refused")
	require.Len(t, all, 1)

	for name, tt := range map[string]struct {
		put  func(at string)
		want string
	}{
		"nothing":   {func(string) {}, "open what it has written"},
		"malformed": {text("# TYPE go_goroutines gauge\ngo_goroutines x\n"), "go_goroutines: the text is malformed"},
		"of long ago": {func(at string) {
			text(goroutines)(at)
			before := time.Now().Add(-4 * time.Minute)
			require.NoError(t, os.Chtimes(at, before, before))
		}, "it has written nothing for 4m0s"},
		"a link to somebody else's": {func(at string) {
			text(goroutines)(at + ".secret")
			require.NoError(t, os.Symlink(at+".secret", at))
		}, "open what it has written"},
		"a pipe":   {func(at string) { require.NoError(t, unix.Mkfifo(at, 0o600)) }, "is not a file"},
		"a folder": {func(at string) { require.NoError(t, os.Mkdir(at, 0o700)) }, "is not a file"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := written(t, tt.put, "")
			require.ErrorContains(t, err, tt.want)
			require.Empty(t, all)
		})
	}
}

func TestTheTableIsOfEndpointsThatThereAre(t *testing.T) {
	programs := map[string]bool{}
	for _, e := range Endpoints() {
		require.NotEmpty(t, Table()[e.Program], e.Program)
		require.False(t, programs[e.Program])
		programs[e.Program] = true
		if e.File == "" || e.URL != "" {
			require.Regexp(t, `^(https?://(127\.0\.0\.1|\{address\}):[0-9]+|http://etcd)(/v1)?/metrics$`, e.URL)
		}
		names := map[string]bool{}
		for _, f := range Table()[e.Program] {
			require.False(t, names[f.Name], f.Name)
			names[f.Name] = true
			require.NotContains(t, f.Labels, "program", f.Name)
		}
	}
	require.Len(t, Programs(), len(programs))
	types := map[string]family.Type{}
	for _, f := range Families() {
		if have, ok := types[f.Name]; ok {
			require.Equal(t, have, f.Type, fmt.Sprintf("%s of several programs", f.Name))
		}
		types[f.Name] = f.Type
	}
}

// TestAWorkerAsksItsKubeletWithTheKubeletsCertificate has no secret of a master, and a kubelet that wants a
// certificate.
func TestAWorkerAsksItsKubeletWithTheKubeletsCertificate(t *testing.T) {
	ca, err := testca.New("cluster")
	require.NoError(t, err)
	served, servedKey, err := ca.Server("127.0.0.1")
	require.NoError(t, err)
	shown, shownKey, err := ca.Issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "system:node:worker-01"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(served, servedKey)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "system:node:worker-01", r.TLS.PeerCertificates[0].Subject.CommonName)
		_, _ = io.WriteString(w, goroutines)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool()}
	server.StartTLS()
	t.Cleanup(server.Close)

	root := paths.Root(t.TempDir())
	require.NoError(t, os.MkdirAll(root.At(paths.Trust), 0o755))
	require.NoError(t, os.WriteFile(root.At(filepath.Join(paths.Trust, "kubelet-serving.crt")), ca.PEM(), 0o644))
	for _, e := range Endpoints() {
		if e.Program != "kubelet" {
			continue
		}
		e.URL = server.URL
		kubelet := Sources(root, []Endpoint{e})[0]
		worker := ask.Question{Programs: []string{"kubelet"}}
		_, err := kubelet.Ask(t.Context(), worker)
		require.ErrorContains(t, err, "the certificate that is shown to kubelet", "before kubelet has one")
		require.NoError(t, os.MkdirAll(root.At(filepath.Dir(kubeletPair)), 0o755))
		require.NoError(t, os.WriteFile(root.At(kubeletPair), append(shown, shownKey...), 0o600))
		all, err := kubelet.Ask(t.Context(), worker)
		require.NoError(t, err)
		require.Len(t, all, 1)
		_, err = kubelet.Ask(t.Context(), ask.Question{Programs: []string{"kubelet", "kubernetes-bootstrap"}})
		require.ErrorContains(t, err, "the certificate that is shown to kubelet", "a master shows its own")
	}
}
