//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/test/chance"
	"spore/wire/nodeapi"
)

// pods are a server on the worker, and clients on both nodes. The master takes only what tolerates it.
const pods = `
apiVersion: v1
kind: Namespace
metadata: {name: lab}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: hello, namespace: lab}
spec:
  replicas: 1
  selector: {matchLabels: {app: hello}}
  template:
    metadata: {labels: {app: hello}}
    spec:
      containers:
        - {name: hello, image: spore.local/hello:1, imagePullPolicy: IfNotPresent, ports: [{containerPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: hello, namespace: lab}
spec:
  selector: {app: hello}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: client, namespace: lab}
spec:
  replicas: 1
  selector: {matchLabels: {app: client}}
  template:
    metadata: {labels: {app: client}}
    spec:
      nodeSelector: {kubernetes.io/hostname: master-01}
      tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists}]
      containers: [{name: hello, image: spore.local/hello:1, imagePullPolicy: IfNotPresent}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: friend, namespace: lab}
spec:
  replicas: 1
  selector: {matchLabels: {app: friend}}
  template:
    metadata: {labels: {app: friend}}
    spec:
      containers: [{name: hello, image: spore.local/hello:1, imagePullPolicy: IfNotPresent}]
`

const onlyFriends = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: only-friends, namespace: lab}
spec:
  podSelector: {matchLabels: {app: hello}}
  policyTypes: [Ingress]
  ingress:
    - from: [{podSelector: {matchLabels: {app: friend}}}]
`

// Names of the Service, its answer, and the pods by the Deployments that keep them.
const (
	helloURL    = "http://hello.lab.svc.cluster.local/"
	helloAnswer = "hello from hello-"
	helloPod    = "lab/deployment/hello"
	clientPod   = "lab/deployment/client"
	friendPod   = "lab/deployment/friend"
)

// One boot proves many things: it is the most of what this costs. With SPORE_SOAK each machine is started once more:
// the worker with an empty disk, and the master a year later.
func TestAClusterOfKubernetesFromTheImageAlone(t *testing.T) {
	l := newLab(t)
	l.masterDisk, l.workerDisks = l.loggedDisk("MASTER"), []vm.Disk{l.loggedDisk("WORKER"), l.osdDisk("OSD-WORKER-02")}
	l.storage = l.newStorage()
	l.bootMaster()
	l.bootWorker()
	l.storage.boot()
	l.storage.beside(t)
	defer func() { // The steps of a test end before it.
		l.storage.hasProcessors()
		<-l.storage.ended
	}()
	type step struct {
		name string
		run  func(*testing.T)
		// needed says that nothing after it can be so without it.
		needed bool
	}
	steps := []step{
		{"both nodes become ready", l.becomesReady, true},
		{"a master applies the objects of manifests/", l.hasItsManifests, false},
		{"kubectl comes in by the proxy of a rehearsal", l.isReachedByTheProxy, false},
		{"a deployment runs on the worker and is reached by its name from the other node", l.servesByName, true},
		{"the operator reads logs, runs programs and forwards ports", l.operates, false},
		{"a node answers with the lines of its pods, without the API of Kubernetes", l.saysWhatPodsWrite, false},
		{"a master tells how Kubernetes is, as kubectl does", l.tellsHowKubernetesIs, false},
		{"a network policy holds", l.holdsPolicies, false},
		{"pods of the administrator see their nodes", l.looks, true},
		{"each node listens where its rows say, and nowhere else", l.listensWhereItsRowsSay, false},
		{"secrets are not readable in etcd's files", l.encryptsSecrets, false},
		{"a worker is no other node and no master", l.boundsWorkers, false},
		{"an unknown machine gets no certificate", l.refusesStrangers, false},
		{"the running nodes are what the CIS table says", l.isWhatTheTableSays, false},
		{"the programs of a master fit into their bound of memory", l.fitsIntoMemory, false},
		{"the nodes tell of themselves what their programs say", l.tellsMetrics, false},
		{"a master whose processor stood still under load comes back", l.comesBack, false},
		{"nothing asked a registry", l.askedNoRegistry, false},
		{"a pod writes into a volume", l.fillsAVolume, false},
		{"both nodes are sent another kernel and another OpenSSL, for their next start", l.isSentTheNextSystem, false},
		{"Ceph did meanwhile what it had to", l.storage.didAll, true},
		{"acknowledged writes and the worker's own state outlive a power cut of all", l.outlivesAPowerCut, true},
		{"both nodes run the other kernel and the other OpenSSL, and stay with them", l.runsTheNextSystem, false},
		{"Ceph has what it acknowledged before the power cut", l.storage.step(l.storage.hasWhatItAcknowledged), false},
		{"what the nodes have loaded for the network and for Ceph is in the cloud kernel of examples/kubernetes", l.hasItsModulesInTheCloudKernel, false},
		{"the volume has what was written, and two copies on two hosts", l.keepsItsVolume, false},
		{"the lost disk of an OSD is seen, and forgotten only by force", l.storage.step(l.storage.losesADisk), false},
	}
	if setting(t, "SPORE_SOAK", 0) > 0 {
		steps = append(steps,
			step{"a worker with an empty disk joins again", l.takesAWipedWorker, false},
			step{"a master that was off for a year serves with new certificates", l.servesAfterAYear, false},
		)
	}
	for _, step := range steps {
		passed := t.Run(step.name, func(t *testing.T) {
			defer func(outer *testing.T) { l.t = outer }(l.t)
			l.t = t
			step.run(t)
		})
		if !passed && step.needed {
			t.Fatal("the rest stands on this")
		}
	}
}

func (l *lab) becomesReady(t *testing.T) {
	l.ready()
	for _, g := range []*guest{l.master, l.worker} {
		l.runsItsRoles(g)
	}
	t.Logf("ready: master after %.0f CPU-s, worker after %.0f CPU-s", l.master.CPU().Seconds(), l.worker.CPU().Seconds())
	require.NotContains(t, l.must("get", "csr", "-o", "jsonpath={range .items[*]}{.metadata.name}={.status.conditions[*].type} {end}"), "Denied", "requests of our own nodes")
}

// runsItsRoles waits until nothing is left to do or has failed on a machine, which knows itself by its card.
func (l *lab) runsItsRoles(g *guest) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), kubeLimit)
	defer cancel()
	s, _, mark, err := g.Console.AwaitStatus(ctx, g.mark, "a status line of a running system", func(s vm.Status) bool {
		return s.System == "running" && s.Times["running"] > 0
	})
	require.NoError(l.t, err, g.Config.Name)
	g.mark = mark
	require.Empty(l.t, s.Failed, s.Raw)
	require.Empty(l.t, s.Held, s.Raw)
	require.Equal(l.t, g.Config.Name, s.Node, s.Raw)
	require.Equal(l.t, "mac", s.Matched.By, s.Raw)
	l.t.Logf("%s runs its roles after %.0f s of its clock, at %.0f CPU-s", s.Node, s.Times["running"], g.CPU().Seconds())
}

func (l *lab) servesByName(t *testing.T) {
	l.apply(pods)
	for _, d := range []string{"hello", "client", "friend"} {
		l.must("rollout", "status", "-n", "lab", "deployment/"+d, "--timeout="+kubeStep.String())
	}
	require.Equal(t, workerName, l.must("get", "pods", "-n", "lab", "-l", "app=hello", "-o", "jsonpath={.items[*].spec.nodeName}"))
	require.Equal(t, masterName, l.must("get", "pods", "-n", "lab", "-l", "app=client", "-o", "jsonpath={.items[*].spec.nodeName}"))
	address := l.must("get", "service", "-n", "lab", "hello", "-o", "jsonpath={.spec.clusterIP}")
	for _, from := range []string{clientPod, friendPod} {
		for _, url := range []string{"http://" + address + "/", helloURL, "http://hello/"} {
			l.within(kubeStep, from+" reaches "+url, func() error { return l.fetches(from, url, helloAnswer) })
		}
	}
	got, err := l.in(clientPod, "lookup", "hello.lab.svc.cluster.local")
	require.NoError(t, err)
	require.Equal(t, address, got)
}

func (l *lab) operates(t *testing.T) {
	require.Contains(t, l.must("logs", "-n", "lab", "deployment/hello"), "GET / from ")
	_, err := l.in(helloPod, "write", "/note", "written by exec")
	require.NoError(t, err)
	got, err := l.in(helloPod, "cat", "/note")
	require.NoError(t, err)
	require.Equal(t, "written by exec", got)

	url := l.serving(`Forwarding from (127\.0\.0\.1:\d+)`, "port-forward", "-n", "lab", "deployment/hello", "0:8080")
	r, err := http.Get(url)
	require.NoError(t, err)
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), helloAnswer)
}

// saysWhatPodsWrite asks the nodes themselves for what kubectl shows of a pod. The one without it has no line.
func (l *lab) saysWhatPodsWrite(t *testing.T) {
	pod := l.must("get", "pods", "-n", "lab", "-l", "app=hello", "-o", "jsonpath={.items[0].metadata.name}")
	container := l.must("get", "pods", "-n", "lab", "-l", "app=hello", "-o", "jsonpath={.items[0].spec.containers[0].name}")
	var text string
	l.within(kubeStep, "the node answers", func() (err error) {
		text, err = l.asks("logs", "--pod", "lab/"+pod+"/"+container, "--grep", "^GET / from", "--json")
		return err
	})
	lines := strings.Split(strings.TrimSpace(text), "\n")
	require.NotEmpty(t, lines[0], "kubectl logs shows such lines")
	for _, line := range lines {
		e, err := nodeapi.ParseEntry([]byte(line))
		require.NoError(t, err, line)
		require.Equal(t, pod+"/"+container, e.Identifier, line)
		require.Contains(t, e.Message, "GET / from ")
	}
}

// serving starts a kubectl that serves until the end of the test, and returns the URL that its output names.
func (l *lab) serving(pattern string, args ...string) string {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := l.command(ctx, args...)
	out, err := cmd.StdoutPipe()
	require.NoError(l.t, err)
	require.NoError(l.t, cmd.Start())
	l.t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was told to end
	})
	found := make(chan string, 1)
	go func() {
		defer close(found)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if m := regexp.MustCompile(pattern).FindStringSubmatch(lines.Text()); m != nil {
				found <- "http://" + m[1]
			}
		}
	}()
	select {
	case url := <-found:
		require.NotEmpty(l.t, url, "kubectl %s ended", strings.Join(args, " "))
		return url
	case <-time.After(kubeStep):
		l.t.Fatalf("kubectl %s does not serve after %s", strings.Join(args, " "), kubeStep)
		return ""
	}
}

func (l *lab) holdsPolicies(t *testing.T) {
	require.NoError(t, l.fetches(clientPod, helloURL, helloAnswer), "without the policy")
	stop := l.background(friendPod, "watch", helloURL)
	l.apply(onlyFriends)
	l.within(kubeStep, "the policy holds", func() error {
		if err := l.fetches(clientPod, helloURL, ""); err == nil {
			return fmt.Errorf("the client still reaches the server")
		}
		return nil
	})
	require.ErrorContains(t, l.fetches(clientPod, helloURL, ""), "hello:", "it is the program in the pod that reports a failure")
	require.NoError(t, l.fetches(friendPod, helloURL, helloAnswer), "whom the policy allows")
	l.must("delete", "networkpolicy", "-n", "lab", "only-friends")
	l.within(kubeStep, "the client reaches the server again", func() error { return l.fetches(clientPod, helloURL, helloAnswer) })
	lines := stop()
	require.Greater(t, len(lines), 3, "%v", lines)
	for _, line := range lines {
		require.Equal(t, "ok", line, "the allowed one passes throughout")
	}
}

// askedNoRegistry holds that nothing was asked, and then that it would have been seen.
func (l *lab) askedNoRegistry(t *testing.T) {
	l.noRegistryWasAsked()
	got, err := l.in(clientPod, "lookup", "any-registry.invalid")
	require.NoError(t, err)
	require.Equal(t, observerIP.String(), got)
	_, err = l.in(clientPod, "fetch", "https://any-registry.invalid/v2/")
	require.ErrorContains(t, err, "connection refused")
	require.Len(t, l.observer.connections(), 1)
	l.observer.forget()
}

// writes are objects that are made through the API, one after the other.
type writes struct {
	mu      sync.Mutex
	done    []string
	refused string
	stop    func()
}

// acknowledged are the names of the objects that were acknowledged so far, and what the last answer was that
// acknowledged nothing.
func (w *writes) acknowledged() (names []string, refused string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.done), w.refused
}

// take notes an answer.
func (w *writes) take(name, answer string, made bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if made {
		w.done = append(w.done, name)
	} else {
		w.refused = answer
	}
}

// writes makes objects until it is stopped, or the power is gone.
func (l *lab) writes() *writes {
	url := l.serving(`Starting to serve on (127\.0\.0\.1:\d+)`, "proxy", "--port=0") + "/api/v1/namespaces/lab/configmaps"
	ctx, cancel := context.WithCancel(context.Background())
	w := &writes{}
	var ended sync.WaitGroup
	ended.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			name := fmt.Sprintf("written-%d", i)
			r, err := http.Post(url, "application/json", strings.NewReader(`{"metadata": {"name": "`+name+`"}, "data": {"n": "`+fmt.Sprint(i)+`"}}`))
			if err != nil {
				return // the power is gone
			}
			r.Body.Close()
			w.take(name, r.Status, r.StatusCode == http.StatusCreated)
		}
	})
	w.stop = func() {
		cancel()
		ended.Wait()
	}
	return w
}

func (l *lab) outlivesAPowerCut(t *testing.T) {
	boot, before := l.bootOf(workerName), l.ownState()
	defer l.storage.within(t)()
	l.storage.writes()
	w := l.writes()
	l.within(kubeStep, "writes are acknowledged", func() error {
		if names, refused := w.acknowledged(); len(names) < 60 {
			return fmt.Errorf("%d are, and the last refusal is %q", len(names), refused)
		}
		return nil
	})
	l.storage.haveWritten()
	var all sync.WaitGroup
	for _, g := range []*guest{l.master, l.worker, l.storage.g} {
		all.Go(func() { g.off() })
	}
	all.Wait()
	w.stop()
	l.storage.acknowledged()
	acknowledged, _ := w.acknowledged()

	seed := chance.Seed(t)
	l.masterDisk = l.afterCut(l.masterDisk, seed)
	for _, disks := range [][]vm.Disk{l.workerDisks, l.keeperDisks} {
		for i, d := range disks {
			seed++
			disks[i] = l.afterCut(d, seed)
		}
	}

	started := time.Now()
	l.bootAgain()
	l.startedAgain(boot)
	l.within(kubeLimit, "the pod runs again", func() error { return l.fetches(clientPod, helloURL, helloAnswer) })
	t.Logf("%d acknowledged writes; served again after %.0f s", len(acknowledged), time.Since(started).Seconds())
	have := strings.Fields(l.must("get", "configmaps", "-n", "lab", "-o", "jsonpath={.items[*].metadata.name}"))
	require.Subset(t, have, acknowledged)
	require.Equal(t, before, l.ownState(), "the worker is the one that it was")
	l.noRegistryWasAsked()
}

// bootOf is the boot id of a node.
func (l *lab) bootOf(node string) string {
	l.t.Helper()
	return l.must("get", "node", node, "-o", "jsonpath={.status.nodeInfo.bootID}")
}

// own is what the worker has on its disk alone: who the machine is, and the hash of the key and certificate by which
// its kubelet is the node. On an empty disk a kubelet makes itself another key.
type own struct {
	machineID, kubelet string
}

func (l *lab) ownState() own {
	l.t.Helper()
	kubelet := l.read(lookWorker, "/host/var/lib/kubelet/pki/kubelet-client-current.pem")
	return own{l.read(lookWorker, "/host/etc/machine-id"), fmt.Sprintf("%x", sha256.Sum256([]byte(kubelet)))}
}

// read reads a file by a looking pod, when that runs.
func (l *lab) read(pod, path string) (text string) {
	l.t.Helper()
	l.within(kubeStep, pod+" runs", func() (err error) {
		text, err = l.in(pod, "cat", path, "/host")
		return err
	})
	require.NotEmpty(l.t, text, path)
	return text
}

// loggedDisk is a disk with the image, whose writes are recorded.
func (l *lab) loggedDisk(serial string) vm.Disk {
	l.t.Helper()
	path := filepath.Join(l.t.TempDir(), serial+".img")
	require.NoError(l.t, vm.Copy(l.image, path, kubeDisk))
	return vm.Disk{Path: path, Serial: serial, BootIndex: 1, WriteLog: path + ".writes"}
}

// afterCut is the disk that a power cut with the last write leaves.
func (l *lab) afterCut(d vm.Disk, seed uint64) vm.Disk {
	l.t.Helper()
	log := readLog(l.t, d.WriteLog)
	cut := log.CutAtEnd(seed)
	l.t.Logf("%s: %s", d.Serial, cut)
	// Beside the first, in the outer test's folder: the disk is needed after this step.
	path := strings.TrimSuffix(d.Path, ".img") + "-after.img"
	require.NoError(l.t, os.Remove(d.Path)) // Its writes are in the log.
	if d.BootIndex > 0 {
		require.NoError(l.t, vm.Copy(l.image, path, kubeDisk))
	} else { // It was empty.
		require.NoError(l.t, os.WriteFile(path, nil, 0o600))
		require.NoError(l.t, os.Truncate(path, osdDisk))
	}
	replay(l.t, log, cut, path)
	require.NoError(l.t, os.Remove(d.WriteLog))
	d.Path, d.WriteLog = path, ""
	return d
}

// bootAgain boots all machines; they belong to the whole test and not to the step.
func (l *lab) bootAgain() {
	step := l.t
	l.t = l.outer
	l.bootMaster()
	l.bootWorker()
	l.storage.boot()
	l.t = step
	l.ready()
}

// startedAgain waits until the worker is ready after another boot than this one.
func (l *lab) startedAgain(boot string) {
	l.t.Helper()
	l.within(kubeLimit, "the worker is ready after another boot", func() error {
		now, err := l.kubectl("get", "node", workerName, "-o", `jsonpath={.status.nodeInfo.bootID} {.status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && (strings.HasPrefix(now, boot) || !strings.HasSuffix(now, " True")) {
			err = fmt.Errorf("boot and readiness are %q", now)
		}
		return err
	})
}

// takesAWipedWorker gives the worker an empty disk.
func (l *lab) takesAWipedWorker(t *testing.T) {
	boot, before := l.bootOf(workerName), l.ownState()
	l.worker.off()
	step := l.t
	l.t = l.outer
	l.workerDisks[0] = l.newDisk("WORKER")
	l.bootWorker()
	l.t = step
	l.startedAgain(boot)
	require.NotEqual(t, before.kubelet, l.ownState().kubelet, "its kubelet had to ask for a certificate")
	l.within(kubeLimit, "the pod runs on it", func() error { return l.fetches(clientPod, helloURL, helloAnswer) })
	l.noRegistryWasAsked()
}

// yearOff is longer than any certificate of a node lives.
const yearOff = 400 * 24 * time.Hour

func (l *lab) servesAfterAYear(t *testing.T) {
	l.worker.off()
	l.master.off()
	later := func() time.Time { return time.Now().Add(yearOff) }
	authorities := x509.NewCertPool()
	require.True(t, authorities.AppendCertsFromPEM([]byte(decoded(t, l.must("config", "view", "--raw", "--minify", "-o", "jsonpath={.clusters[0].cluster.certificate-authority-data}")))))
	step := l.t
	l.t = l.outer
	l.rtc = later().UTC().Format("2006-01-02T15:04:05")
	l.bootMaster()
	l.t = step
	api, err := l.master.Address("tcp", apiEnd)
	require.NoError(t, err)
	client := http.Client{Timeout: kubeStep, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities, Time: later}}}
	l.within(kubeLimit, "the API is ready", func() error {
		r, err := client.Get("https://" + api + "/readyz")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return errors.New(r.Status)
		}
		require.True(t, r.TLS.PeerCertificates[0].NotAfter.After(later()))
		return nil
	})
}
