package ready

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

func TestWhatANodeLacksByItsStatusLine(t *testing.T) {
	edge := &facts.Node{Name: "edge-01", Roles: []string{"mqtt-broker", "dns-server"}}
	const up = `"services":{"mqtt.target":"active","dns.target":"active","mosquitto.service":"active"}`
	for name, c := range map[string]struct {
		node *facts.Node
		line string
		want string
	}{
		"nothing yet":     {edge, ``, "status: the node has not said anything yet"},
		"all is up":       {edge, `{"spore":1,"node":"edge-01","system":"running","roles":["mqtt-broker","dns-server"],` + up + `}`, ""},
		"no roles at all": {&facts.Node{Name: "a"}, `{"spore":1,"node":"a","system":"running","roles":[]}`, ""},
		"it starts":       {edge, `{"spore":1,"node":"edge-01","system":"starting","roles":["mqtt-broker","dns-server"],` + up + `}`, "system: it is starting"},
		"no node":         {edge, `{"spore":1,"node":"","system":"running","problem":"no node has the MAC"}`, "identity: no node has the MAC"},
		"another node":    {edge, `{"spore":1,"node":"mqtt-01","system":"running"}`, `identity: the machine is "mqtt-01"`},
		"a role is held": {
			edge, `{"spore":1,"node":"edge-01","system":"running","roles":["dns-server"],"held":[{"role":"mqtt-broker","reason":"x is missing"}],"services":{"dns.target":"active","mqtt.target":"inactive"}}`,
			"role mqtt-broker: held: x is missing, unit mqtt.target: it is inactive",
		},
		"a role was left out": {edge, `{"spore":1,"node":"edge-01","system":"running","roles":["dns-server"],` + up + `}`, "role mqtt-broker: it was not started"},
		"a target is not there": {
			edge, `{"spore":1,"node":"edge-01","system":"running","roles":["mqtt-broker","dns-server"],"services":{"mqtt.target":"active"}}`,
			"unit dns.target: it is unknown",
		},
		"a unit failed": {
			edge, `{"spore":1,"node":"edge-01","system":"degraded","roles":["mqtt-broker","dns-server"],"failed":["x.service"],` + up + `}`,
			"system: it is degraded, unit x.service: it has failed",
		},
		"a program starts again": {
			edge, `{"spore":1,"node":"edge-01","system":"running","roles":["mqtt-broker","dns-server"],` + strings.Replace(up, `"mosquitto.service":"active"`, `"mosquitto.service":"activating","done.service":"inactive"`, 1) + `}`,
			"unit mosquitto.service: it is activating",
		},
		"it waits for others": {
			edge, `{"spore":1,"node":"edge-01","system":"running","roles":["mqtt-broker","dns-server"],"waiting":{"kafka":"waiting for kafka-02"},` + up + `}`,
			"service kafka: waiting for kafka-02",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var status *vm.Status
			if c.line != "" {
				s, ok := vm.ParseStatus(c.line)
				require.True(t, ok)
				status = &s
			}
			require.Equal(t, c.want, text(ByStatus(&facts.Cluster{}, c.node, status)))
		})
	}
}

func text(list []Lack) string {
	var out []string
	for _, l := range list {
		out = append(out, l.String())
	}
	return strings.Join(out, ", ")
}

func TestWarningsOfHealthAreNoLack(t *testing.T) {
	require.Equal(t, "health disks: osd disk A: it is not there", text(ByHealth(nodeapi.Health{Conditions: []nodeapi.Condition{
		{Name: "agent", State: nodeapi.OK, Reason: "it runs"},
		{Name: "clock", State: nodeapi.Warning, Reason: "no time server has answered"},
		{Name: "disks", State: nodeapi.Failing, Reason: "osd disk A: it is not there"},
	}})))
}

var started = time.Date(2026, 3, 1, 12, 0, 0, 7e8, time.UTC)

func node(status, heartbeat string) string {
	return fmt.Sprintf(`{"kind":"Node","status":{"conditions":[{"type":"MemoryPressure","status":"False","lastHeartbeatTime":%q},
		{"type":"Ready","status":%q,"lastHeartbeatTime":%q,"reason":"KubeletNotReady","message":"cni plugin not initialized"}]}}`, heartbeat, status, heartbeat)
}

func TestANodeIsReadyWhenItsKubeletHasSaidSoSinceTheMachineWasStarted(t *testing.T) {
	for name, c := range map[string]struct{ object, want string }{
		"ready":                      {node("True", "2026-03-01T12:01:00Z"), ""},
		"in the second of the start": {node("True", "2026-03-01T12:00:00Z"), ""},
		"ready before the power cut": {node("True", "2026-03-01T11:59:59Z"), "Kubernetes: its kubelet has not reported since the machine was started"},
		"not ready":                  {node("False", "2026-03-01T12:01:00Z"), "Kubernetes: the node is not Ready: cni plugin not initialized"},
		"nobody knows":               {node("Unknown", "2026-03-01T12:01:00Z"), "Kubernetes: the node is not Ready: cni plugin not initialized"},
		"no condition":               {`{"kind":"Node"}`, "Kubernetes: its kubelet has not reported yet"},
		"no object":                  {`[]`, "Kubernetes: the API server's answer is not a Node: json: cannot unmarshal array into Go value of type"},
		"another condition's true":   {`{"status":{"conditions":[{"type":"DiskPressure","status":"True","lastHeartbeatTime":"2026-03-01T12:01:00Z"}]}}`, "Kubernetes: its kubelet has not reported yet"},
	} {
		t.Run(name, func(t *testing.T) {
			got := text(judge([]byte(c.object), started))
			if c.want == "" {
				require.Empty(t, got)
			}
			require.Contains(t, got, c.want)
		})
	}
}

func TestTheFirstAPIServerThatAnswersSaysIt(t *testing.T) {
	certificate, key := selfSigned(t)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	clients := x509.NewCertPool()
	require.True(t, clients.AppendCertsFromPEM(certificate))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/nodes/worker-01":
			fmt.Fprint(w, node("True", "2026-03-01T12:01:00Z"))
		case "/api/v1/nodes/large":
			fmt.Fprint(w, strings.Repeat(" ", maxNode+1))
		case "/api/v1/nodes/forbidden":
			w.WriteHeader(http.StatusForbidden)
		default:
			http.NotFound(w, r)
		}
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	defer server.Close()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, nobody.Close())

	k, err := NewKubernetes(certificate, key, certificate)
	require.NoError(t, err)
	at := server.Listener.Addr().String()
	ask := func(node string, servers ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return text(k.Lacks(ctx, servers, node, started))
	}
	require.Empty(t, ask("worker-01", nobody.Addr().String(), at))
	require.Equal(t, "Kubernetes: Kubernetes does not know the node yet", ask("worker-02", at))
	require.Equal(t, "Kubernetes: the API server answers 403 Forbidden", ask("forbidden", at))
	require.Contains(t, ask("large", at), "has more than")
	require.Contains(t, ask("worker-01", nobody.Addr().String()), "connection refused")
	require.Equal(t, "Kubernetes: no control plane runs that could be asked", ask("worker-01"))

	other, _ := selfSigned(t)
	k, err = NewKubernetes(certificate, key, other)
	require.NoError(t, err)
	require.Contains(t, ask("worker-01", at), "x509", "a server that the cluster's authority has not signed says nothing")
	_, err = NewKubernetes(certificate, key, nil)
	require.ErrorContains(t, err, "lacks the authority kubernetes-server")
}

// selfSigned is a certificate for the name of API servers, that of a client too.
func selfSigned(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{serverName}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	text, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}
