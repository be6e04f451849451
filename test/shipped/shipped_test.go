//go:build e2e

// Package shipped does with configs/ what README.md and docs/rehearse.md tell a user to do, word for word: the commands
// are looked up there. All six machines run the one image, in QEMU, on a network that this host enters by one proxy
// alone.
//
// One addition is made to the configuration, as docs/kubernetes.md says: the container image of test/hello, which runs
// in the pods. SPORE_RESULTS is a folder for the table.
package shipped

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/proxy"

	"spore/builder/vm"
	"spore/test/client"
	"spore/test/rehearse"
)

const (
	// ready bounds the start of all six machines, in emulation on two processors.
	ready = 40 * time.Minute
	// step bounds one thing that the running cluster does.
	step = 15 * time.Minute
	// comeback bounds the time without the API after its server was killed.
	comeback = 3 * time.Minute
	// writing is how long clients write before the power goes.
	writing = 30 * time.Second
	// saved is longer than the broker of MQTT takes to save what has changed.
	saved = 5 * time.Second
	topic = "measurements.line-1"
)

var (
	machines = []string{"master-01", "worker-01", "worker-02", "kafka-01", "storage-01", "edge-01"}
	workers  = []string{"master-01", "worker-01", "worker-02"}
)

// cluster is the site while its machines run.
type cluster struct {
	*site
	// name and domain are those of cluster.yaml.
	name, domain string
	machines     *rehearse.Command
	door         proxy.ContextDialer
	table        strings.Builder
	began        time.Time
	// files are the hashes of the files in the volume by their paths.
	files map[string]string
}

// One start proves many things: it is the most of what this costs.
func TestTheShippedClusterAsAWhole(t *testing.T) {
	c := &cluster{site: newSite(t, "whole", "configs"), name: "plant", domain: "plant.example", files: map[string]string{}}
	c.steps([]testStep{
		{"the image is built", c.builds},
		{"all six machines are up from one image", c.comesUp},
		{"a pod is reached by Service and by name from another node", c.servesByName},
		{"the API server is killed under load and comes back", c.comesBack},
		{"a volume has two copies on two hosts", c.hasTwoCopies},
		{"one of the hosts is cut off: the volume is read and written", c.losesAHost},
		{"the host comes back, and Ceph heals", c.heals},
		{"Kafka takes and gives records with the shipped users", c.streams},
		{"MQTT and DNS answer", c.answers},
		{"what was acknowledged is there after the power of all six was cut", c.outlivesTheCut},
	})
	c.writeTable("shipped.md")
}

// The two machines that are cheapest to start: what make test has the time for. Kafka itself runs on kafka-01 in
// TestOneKafkaNodeServes of test/e2e, where its clients are; here its machine gets the disk that it
// needs.
func TestTheShippedBrokersOfKafkaAndMQTT(t *testing.T) {
	c := &cluster{site: newSite(t, "brokers", "configs"), name: "plant", domain: "plant.example"}
	c.steps([]testStep{
		{"the image is built", c.builds},
		{"both machines are up", func(*testing.T) {
			c.start("--node kafka-01,edge-01")
			c.documented("docs/rehearse.md", getNodes) // whose proxy TestAClusterOfKubernetesFromTheImageAlone asks it through
			c.awaitDisk("kafka-01", "KAFKA-01-DATA")
			c.must(c.documented("docs/rehearse.md", "bin/spore boot out --kill kafka-01"))
			c.awaitRoles("edge-01")
		}},
		{"MQTT and DNS answer", c.answers},
	})
	c.writeTable("shipped-brokers.md")
}

// testStep is a part of a test.
type testStep struct {
	name string
	run  func(*testing.T)
}

// steps runs steps of which each stands on those before it.
func (c *cluster) steps(steps []testStep) {
	for _, step := range steps {
		if !c.outer.Run(step.name, func(t *testing.T) {
			defer func(outer *testing.T) { c.t = outer }(c.t)
			c.t = t
			step.run(t)
		}) {
			return
		}
	}
}

// builds makes keys and the image as make image does.
func (c *cluster) builds(*testing.T) {
	c.began = time.Now()
	c.must("bin/spore pki init configs --plain")
	c.must(c.documented("README.md", "bin/spore build configs -o out"))
	c.reached("image built, with what was compiled before in the cache")
}

// comesUp starts all machines and waits until they are ready.
func (c *cluster) comesUp(t *testing.T) {
	c.start("--all")
	c.awaitReady(machines, workers)
	for _, node := range machines {
		c.row(node+" at that time", fmt.Sprintf("%.0f CPU-s", c.machines.CPU(node).Seconds()))
	}
}

// start starts machines, and opens the way into their network.
func (c *cluster) start(which string) {
	c.t.Helper()
	c.began = time.Now()
	boot := c.documented("docs/rehearse.md", "bin/spore boot out --all", "--all", which)
	c.machines = c.boot(boot + " --append spore.console --json")
	c.door = c.machines.Proxy().(proxy.ContextDialer)
	c.must(c.documented("docs/rehearse.md", "bin/spore kubeconfig configs -o rehearsal.kubeconfig"))
	c.must(c.documented("docs/rehearse.md",
		"kubectl --kubeconfig rehearsal.kubeconfig config set-cluster plant --proxy-url socks5://127.0.0.1:1080",
		"set-cluster plant", "set-cluster "+c.name, "127.0.0.1:1080", c.machines.ProxyAddress()))
}

// getNodes is how a user asks whether the nodes are there.
const getNodes = "kubectl --kubeconfig rehearsal.kubeconfig get nodes"

// nodesReady has a line for each node of Kubernetes: its name, whether it is ready, and when its kubelet said so last.
const nodesReady = `{range .items[*]}{.metadata.name} {range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime}{end}{"\n"}{end}`

// awaitReady waits until the roles of the machines run and Kubernetes has its nodes, since this start.
func (c *cluster) awaitReady(machines, workers []string) {
	c.t.Helper()
	c.awaitRoles(machines...)
	get := c.documented("docs/rehearse.md", getNodes)
	c.within(ready, "all nodes of Kubernetes are ready", func() error {
		out, err := c.run(get + " -o 'jsonpath=" + nodesReady + "'")
		if err != nil {
			return err
		}
		var up []string
		for line := range strings.Lines(out) {
			f := strings.Fields(line)
			if len(f) != 3 || f[1] != "True" {
				continue
			}
			if beat, err := time.Parse(time.RFC3339, f[2]); err == nil && beat.After(c.began) {
				up = append(up, f[0])
			}
		}
		if !slices.Equal(up, workers) {
			return fmt.Errorf("ready are %v", up)
		}
		return nil
	})
	c.reached("all nodes of Kubernetes are Ready")
}

// awaitRoles waits until the roles of machines run, each of which knows itself by its card.
func (c *cluster) awaitRoles(machines ...string) {
	c.t.Helper()
	for _, node := range machines {
		s := c.machines.Running(node)
		require.Equal(c.t, "mac", s.Matched.By, s.Raw)
		c.row(node+" runs its roles, by its own clock", fmt.Sprintf("%.0f s", s.Times["running"]))
	}
	c.reached("all of them run their roles")
}

// awaitDisk waits until a node has prepared a disk for a service, which its machine must have.
func (c *cluster) awaitDisk(node, serial string) {
	c.t.Helper()
	c.machines.Await(node+" to prepare the disk "+serial, func(e rehearse.Event) bool {
		var s struct {
			Disks []struct{ Serial, Device, Problem string }
		}
		if e.Event != "status" || e.Node != node || json.Unmarshal(e.Status, &s) != nil {
			return false
		}
		for _, d := range s.Disks {
			require.Empty(c.t, d.Problem, "%s", e.Status)
			if d.Serial == serial && d.Device != "" {
				return true
			}
		}
		return false
	})
	c.reached(node + " has prepared its disk")
}

func (c *cluster) kubectl(args string) (string, error) {
	out, err := c.run("kubectl --kubeconfig rehearsal.kubeconfig " + args)
	return strings.TrimSpace(out), err
}

func (c *cluster) mustKubectl(args string) string {
	c.t.Helper()
	return c.must("kubectl --kubeconfig rehearsal.kubeconfig " + args)
}

// apply makes objects.
func (c *cluster) apply(objects string) {
	c.t.Helper()
	require.NoError(c.t, os.WriteFile(filepath.Join(c.dir, "objects.yaml"), []byte(objects), 0o644))
	c.mustKubectl("apply -f objects.yaml")
}

// in runs hello in a pod.
func (c *cluster) in(pod, args string) (string, error) {
	return c.kubectl("exec " + pod + " -- /hello " + args)
}

// server is a pod that answers on a worker, with a Service at an address.
func server(worker, address string) string {
	return `
apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: server}}
spec:
  nodeSelector: {kubernetes.io/hostname: ` + worker + `}
  containers: [{name: hello, image: spore.local/hello:1, imagePullPolicy: IfNotPresent, ports: [{containerPort: 8080}]}]
---
apiVersion: v1
kind: Service
metadata: {name: server}
spec:
  clusterIP: ` + address + `
  selector: {app: server}
  ports: [{port: 80, targetPort: 8080}]
`
}

// serviceAddress is that of the Service of the server; another node than the server's asks for it.
const serviceAddress = "10.96.77.77"

const asker = `
apiVersion: v1
kind: Pod
metadata: {name: asker}
spec:
  nodeSelector: {kubernetes.io/hostname: worker-02}
  containers: [{name: hello, image: spore.local/hello:1, imagePullPolicy: IfNotPresent}]
`

func (c *cluster) servesByName(t *testing.T) {
	c.apply(server("worker-01", serviceAddress) + "---" + asker)
	c.mustKubectl("wait --for=condition=Ready pod/server pod/asker --timeout=" + step.String())
	for _, url := range []string{"http://" + serviceAddress + "/", "http://server/", "http://server.default.svc.cluster.local/"} {
		c.within(step, "worker-02 reaches "+url, func() error {
			got, err := c.in("asker", "fetch "+url)
			if err == nil && got != "hello from server" {
				err = fmt.Errorf("it says %q", got)
			}
			return err
		})
	}
	c.reached("a pod is reached by Service and by name from another node")
}

// comesBack kills the API server alone, while all that asks it runs on, and four clients more.
func (c *cluster) comesBack(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				list := c.command(ctx, "kubectl --kubeconfig rehearsal.kubeconfig --request-timeout=10s get pods -A -o json")
				if list.Run() != nil {
					time.Sleep(time.Second) // as a client does that is turned away
				}
			}
		})
	}
	defer load.Wait()
	defer cancel()
	master := c.shell("master-01")
	master.Run("systemctl kill -s KILL kube-apiserver")
	began := time.Now()
	c.within(comeback, "the API answers", func() error {
		_, err := c.kubectl("--request-timeout=10s get nodes")
		return err
	})
	c.row("the API server was killed under load, and answers again after", fmt.Sprintf("%.0f s", time.Since(began).Seconds()))
	require.Equal(t, []string{"1"}, slices.DeleteFunc(master.Run("systemctl show -P NRestarts kube-apiserver"), func(s string) bool { return s == "" }))
}

// keeper has the volume, on a worker that no test cuts off by itself.
const keeper = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: keeper}
spec:
  nodeSelector: {kubernetes.io/hostname: worker-01}
  securityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000, fsGroupChangePolicy: OnRootMismatch}
  containers:
    - name: hello
      image: spore.local/hello:1
      imagePullPolicy: IfNotPresent
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

// hasTwoCopies writes into a new volume.
func (c *cluster) hasTwoCopies(t *testing.T) {
	c.apply(keeper)
	c.mustKubectl("wait --for=condition=Ready pod/keeper --timeout=" + step.String())
	c.reached("a pod runs with a new volume")
	c.fill("/data/first")
	ceph := c.shell("storage-01")
	object := strings.Join(ceph.Run("rados -p rbd ls | grep ^rbd_data | head -n 1"), "")
	require.Regexp(t, `^rbd_data\.`, object)
	mapped := strings.Join(ceph.Run("ceph osd map rbd "+object), "")
	m := regexp.MustCompile(`acting \(\[(\d+),(\d+)\]`).FindStringSubmatch(mapped)
	require.Len(t, m, 3, "the object has other than two copies: %s", mapped)
	var hosts []string
	for _, osd := range m[1:] {
		text := strings.Join(ceph.Run("ceph osd find "+osd+" -f json"), "")
		var found struct {
			Host string `json:"host"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &found), text)
		hosts = append(hosts, found.Host)
	}
	slices.Sort(hosts)
	require.Equal(t, []string{"storage-01", "worker-02"}, hosts)
}

// fill writes a file into the volume, synced.
func (c *cluster) fill(path string) {
	c.t.Helper()
	c.within(step, path+" is written", func() error {
		sum, err := c.in("keeper", "fill "+path+" 8388608")
		if err != nil && strings.Contains(err.Error(), "file exists") {
			// A try before was cut short: the file was not acknowledged.
			path += "-again"
		}
		if err == nil {
			c.files[path] = sum
		}
		return err
	})
}

// readsAll reads all files of the volume.
func (c *cluster) readsAll() {
	c.t.Helper()
	for path, want := range c.files {
		c.within(step, path+" is read", func() error {
			got, err := c.in("keeper", "sum "+path)
			if err == nil && got != want {
				require.Equal(c.t, want, got, path)
			}
			return err
		})
	}
}

func (c *cluster) losesAHost(t *testing.T) {
	c.must(c.documented("docs/rehearse.md", "bin/spore boot out --kill kafka-01", "kafka-01", "worker-02"))
	began := time.Now()
	c.fill("/data/second")
	c.readsAll()
	c.row("a volume whose one host was cut off is written and read again after",
		fmt.Sprintf("%.0f s", time.Since(began).Seconds()))
}

func (c *cluster) heals(t *testing.T) {
	again := c.boot("bin/spore boot out --node worker-02 --append spore.console --json")
	began := time.Now()
	again.Running("worker-02")
	ceph := c.shell("storage-01")
	c.within(ready, "all copies are there again", func() error {
		text := strings.Join(ceph.Run("ceph --connect-timeout 60 pg stat"), " ")
		if !regexp.MustCompile(`(\d+) pgs: (\d+) active\+clean;`).MatchString(text) || strings.Contains(text, "degraded") {
			return fmt.Errorf("it says %s", text)
		}
		return nil
	})
	c.row("the host is back, and all copies are there again after", fmt.Sprintf("%.0f s", time.Since(began).Seconds()))
	c.readsAll()
}

func (c *cluster) outlivesTheCut(t *testing.T) {
	stop := c.writers()
	time.Sleep(max(writing, saved)) // of writing
	c.end()
	objects, lines, records := stop()
	require.NotEmpty(t, objects)
	require.Greater(t, lines, 5)
	require.Greater(t, len(records), 10)
	c.row("acknowledged before the power of all six was cut",
		fmt.Sprintf("%d objects of Kubernetes, %d lines in a volume, %d records", len(objects), lines, len(records)))

	c.start("--all")
	c.awaitReady(machines, workers)
	c.within(step, "the pod has its volume", func() error {
		_, err := c.in("keeper", "sum /data/first")
		return err
	})
	c.reached("the pod has its volume again")
	c.readsAll()
	text, err := c.in("keeper", "cat /data/lines")
	require.NoError(t, err)
	have := strings.Split(text, "\n")
	require.GreaterOrEqual(t, len(have), lines)
	for i := range lines {
		require.Equal(t, fmt.Sprint(i), have[i])
	}
	require.Subset(t, strings.Fields(c.mustKubectl("get configmaps -o 'jsonpath={.items[*].metadata.name}'")), objects)
	c.reads(records)
	m := c.mqtt()
	defer m.Close()
	require.NoError(t, m.Subscribe("sensors/#"))
	got, err := m.Await("sensors/hall", step)
	require.NoError(t, err)
	require.Equal(t, client.Message{Payload: "21.5", Retained: true}, got)
	c.resolves()
	c.reached("all of it is there")
}

// reached writes down how long after the start something was so.
func (c *cluster) reached(what string) {
	c.row(what, fmt.Sprintf("%.0f s", time.Since(c.began).Seconds()))
}

func (c *cluster) row(what, value string) {
	fmt.Fprintf(&c.table, "| %s | %s |\n", what, value)
	c.t.Log(what, value)
}

// writeTable keeps the table in the folder SPORE_RESULTS, if that is set.
func (c *cluster) writeTable(name string) {
	accel, err := vm.DetectAccel(context.Background())
	require.NoError(c.t, err)
	text := "Machines of " + c.name + " in QEMU (" + accel.Name + "), since the start of its machines\n\n| reached | after |\n|---|---|\n" +
		c.table.String()
	c.t.Log("\n" + text)
	if dir := os.Getenv("SPORE_RESULTS"); dir != "" {
		require.NoError(c.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
}
