package kubecluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"spore/agent/render"
	"spore/cluster/facts"
	"spore/pki"
	"spore/services"
	"spore/services/kubernetes/client"
	"spore/services/kubernetes/kubeapi"
	"spore/services/rendering"
	"spore/services/service"
)

// Running is a master's control plane on loopback: the programs of an image with the files and flags that its agent
// renders.
type Running struct {
	// Server is the URL of the API, Etcd that of its database, DNS the address of the cluster's DNS server.
	Server, Etcd, DNS string
	// Dir holds what the programs wrote: etcd/, log/audit.log, PROGRAM.log.
	Dir string

	cluster *Cluster
	node    *facts.Node
	units   string
	program func(string) string
	replace []string
	// mu guards what runs.
	mu       sync.Mutex
	commands []*exec.Cmd
	names    []string
}

// LeakGrace is how long an address without a pod stays allocated here; a quarter of an hour on a node is more than a
// test waits.
const LeakGrace = 8 * time.Second

// readyBound is the longest wait for the API.
const readyBound = 2 * time.Minute

// Prepare lays out what the programs of a master find on a node. units is the folder of the units, program returns the
// file of a program. Where the node has its address and well-known ports, the programs get loopback and free ports.
func (c *Cluster) Prepare(n *facts.Node, dir, units string, program func(name string) string) (*Running, error) {
	r := &Running{Dir: dir, cluster: c, node: n, units: units, program: program}
	for name, data := range c.Tree.Public().Files() {
		if err := write(filepath.Join(dir, name), data); err != nil {
			return nil, err
		}
	}
	for _, d := range []string{"etcd", "log"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	ports, err := freePorts(5)
	if err != nil {
		return nil, err
	}
	r.Server = "https://127.0.0.1:" + ports[0]
	r.Etcd = "https://127.0.0.1:" + ports[1]
	r.DNS = "127.0.0.1:" + ports[3]
	r.replace = []string{
		"/run/spore/trust/", filepath.Join(dir, pki.PublicDir) + "/", "/var/lib/etcd", filepath.Join(dir, "etcd"), "/var/log/kubernetes/", filepath.Join(dir, "log") + "/",
		client.Server, r.Server, "--secure-port=6443", "--secure-port=" + ports[0], "--bind-address=0.0.0.0", "--bind-address=127.0.0.1",
		"https://127.0.0.1:2379", r.Etcd, "unix:///run/etcd/", "unix://" + filepath.Join(dir, "run", "etcd") + "/",
		"https://" + n.IPs[0] + ":2379", "https://127.0.0.2:" + ports[1], "https://" + n.IPs[0] + ":2380", "https://127.0.0.1:" + ports[2],
		"prometheus 127.0.0.1:9154\n", "prometheus 127.0.0.1:" + ports[4] + "\n",
		".:10053 {", ".:" + ports[3] + " {", "bind " + n.IPs[0] + "\n", "bind 127.0.0.1\n",
	}
	return r, nil
}

// freePorts asks the kernel for ports of the loopback. It keeps all of them until it has the last, since the kernel
// gives a port that was closed to the next who asks.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports, nil
}

func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// Start starts the programs in their order, each with the arguments of its unit. As on a node, those after the API
// server wait until it is ready.
func (r *Running) Start(ctx context.Context, programs ...string) error {
	for _, name := range programs {
		if err := r.start(name); err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		if name != "kube-apiserver" {
			continue
		}
		if err := r.awaitAPI(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *Running) awaitAPI(ctx context.Context) error {
	client, err := r.Client(r.node.Name, "kubernetes-bootstrap", "kubernetes-agent")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	for {
		err := client.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API server is not ready after %s: %w; see %s", readyBound, err, r.Dir)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (r *Running) start(name string) error {
	row, ok := services.Ours().LookupProgram(name)
	if !ok {
		return errors.New("it is not a program")
	}
	secrets := filepath.Join(r.Dir, "credentials", name)
	for _, ref := range row.Secrets {
		data, err := r.cluster.Secret(r.node.Name, name, ref)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(secrets, "secret_"+ref), data); err != nil {
			return err
		}
	}
	dir := filepath.Join(r.Dir, "run", name)
	files, err := r.cluster.Render(r.node, name, dir)
	if err != nil {
		return err
	}
	replacer := strings.NewReplacer(append([]string{"/run/credentials/" + row.Unit + "/", secrets + "/"}, r.replace...)...)
	for file, f := range files {
		files[file] = rendering.File{Data: []byte(replacer.Replace(string(f.Data))), Mode: f.Mode}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := render.Write(dir, files); err != nil {
		return err
	}
	args, err := r.arguments(row, dir, files, replacer)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(r.Dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	environment, err := unitEnvironment(filepath.Join(r.units, row.Unit))
	if err != nil {
		return err
	}
	cmd := exec.Command(r.program(name), args...)
	cmd.Env = append(os.Environ(), environment...)
	if f, ok := files["environment"]; ok {
		cmd.Env = append(cmd.Env, strings.Split(strings.TrimSpace(string(f.Data)), "\n")...)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commands, r.names = append(r.commands, cmd), append(r.names, name)
	return nil
}

// arguments are those of the unit's ExecStart=, with free ports for listeners that are not the API's, and LeakGrace.
func (r *Running) arguments(row service.Program, dir string, files map[string]rendering.File, places *strings.Replacer) ([]string, error) {
	switch row.Name {
	case "etcd":
		return []string{"--config-file=" + filepath.Join(dir, "config.json")}, nil
	case "calico-controllers":
		return []string{"kube-controllers", "-leak-grace=" + LeakGrace.String()}, nil
	case "cluster-dns":
		return []string{"-conf", filepath.Join(dir, "Corefile")}, nil
	}
	unit, err := os.ReadFile(filepath.Join(r.units, row.Unit))
	if err != nil {
		return nil, err
	}
	words, err := CommandLine(string(unit), &r.cluster.Shared, r.node, files)
	if err != nil {
		return nil, err
	}
	var args []string
	for _, w := range words[1:] {
		args = append(args, places.Replace(w))
	}
	if row.Name != "kube-apiserver" {
		p, err := freePorts(1)
		if err != nil {
			return nil, err
		}
		args = append(args, "--secure-port="+p[0])
	}
	return args, nil
}

// Stop stops the programs in the reverse order and returns when they have ended.
func (r *Running) Stop() {
	r.mu.Lock()
	commands := r.commands
	r.commands, r.names = nil, nil
	r.mu.Unlock()
	for _, cmd := range slices.Backward(commands) {
		_ = cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
		_ = cmd.Process.Signal(syscall.SIGCONT) // it may stand still (Signal)
		kill := time.AfterFunc(15*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // says how it ended, which is how it was told to
		kill.Stop()
	}
}

// StopOne stops one of the programs.
func (r *Running) StopOne(name string) {
	r.mu.Lock()
	i := slices.Index(r.names, name)
	if i < 0 {
		r.mu.Unlock()
		return
	}
	one := &Running{commands: []*exec.Cmd{r.commands[i]}}
	r.commands, r.names = slices.Delete(r.commands, i, i+1), slices.Delete(r.names, i, i+1)
	r.mu.Unlock()
	one.Stop()
}

// Credentials are those that a program of a node has for the API, by the name of its certificate.
func (r *Running) Credentials(node, program, leaf string) (kubeapi.Credentials, error) {
	c := kubeapi.Credentials{Server: r.Server}
	var err error
	if c.Authorities, err = r.cluster.Public("kubernetes-server.crt"); err != nil {
		return c, err
	}
	if c.Certificate, err = r.cluster.Secret(node, program, leaf+"-certificate"); err != nil {
		return c, err
	}
	c.Key, err = r.cluster.Secret(node, program, leaf+"-key")
	return c, err
}

// Client is a client of the API as a program of a node is one.
func (r *Running) Client(node, program, leaf string) (*kubeapi.Client, error) {
	c, err := r.Credentials(node, program, leaf)
	if err != nil {
		return nil, err
	}
	return kubeapi.NewClient(c, 1)
}

// ClientCertificate is a certificate of the authority of the API's clients that is in no bundle, with its key: what one
// would have who is no node of the cluster any more.
func (c *Cluster) ClientCertificate(commonName, organization string) (certificate, key []byte, err error) {
	master, err := c.Node("control-plane")
	if err != nil {
		return nil, nil, err
	}
	authorityKey, err := c.Secret(master.Name, "kube-controller-manager", "kubernetes-client-ca-key")
	if err != nil {
		return nil, nil, err
	}
	authority, err := c.Public("kubernetes-client.crt")
	if err != nil {
		return nil, nil, err
	}
	pair, err := tls.X509KeyPair(authority, authorityKey)
	if err != nil {
		return nil, nil, err
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: commonName, Organization: []string{organization}},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, pair.Leaf, &own.PublicKey, pair.PrivateKey)
	if err != nil {
		return nil, nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), nil
}
