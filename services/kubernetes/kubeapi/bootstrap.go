// Package kubeapi gives a cluster, through the API of its masters, what it needs before its first pod, and keeps it so:
// roles of the programs that are no pods, cluster DNS, network and storage objects, labels and taints of the nodes; and
// it approves the certificates that kubelets ask for, when they fit cluster.yaml.
//
// It speaks to the API by net/http: server-side apply, lists, watches. It makes no pod and runs none.
//
// It has no client-go: the dynamic client of k8s.io/client-go 0.33 alone adds 8 MB to a program that has net/http,
// and all of the agent has 12.5 MB. The types of Kubernetes are not needed: few fields are read of what are maps
// otherwise.
package kubeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"spore/cluster/facts"
	"spore/services/kubernetes"
	kubernetesnode "spore/services/kubernetes/node"
)

// Times of the daemon, on machines of usual speed.
const (
	// pause is between two tries, and mostPause what it grows to.
	pause     = time.Second
	mostPause = 30 * time.Second
	// servedBound is the longest wait for the API server to serve a kind that it has just been given.
	servedBound = time.Minute
)

// Options are what the daemon works with.
type Options struct {
	Client  *Client
	Cluster *facts.Cluster
	// Nodes are all nodes that Kubernetes runs on.
	Nodes []facts.Node
	// Kinds returns the definitions of Calico's own kinds.
	Kinds func(context.Context) ([]Object, error)
	// Say writes a line for people, Status what is being waited for.
	Say, Status func(string)
	// Applied is called each time that all has been applied.
	Applied func()
}

// bootstrap is the running daemon.
type bootstrap struct {
	Options
	known   Known
	wants   map[string]nodeWant
	applied map[string][]kubernetesnode.Taint
	servers []server
	// measures has the uid of each node that was given the right to measure its kubelet.
	measures map[string]string
	said     map[string]bool
	pause    time.Duration
	// changed counts the objects that had to be applied.
	changed int
}

// Run applies everything whenever the API server is there (again), and works in between, until the context ends. It
// returns an error when the configuration is wrong; whatever the API server says is tried again.
func Run(ctx context.Context, o Options) error {
	b := &bootstrap{Options: o, known: KnownNodes(o.Nodes), servers: dnsServers(o.Cluster, o.Nodes), said: map[string]bool{}, pause: pause}
	var err error
	if b.wants, err = nodeWants(o.Nodes); err != nil {
		return err
	}
	if _, err := Objects(o.Cluster); err != nil {
		return err
	}
	for {
		err := b.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		b.Say(fmt.Sprintf("%v; tries again in %s", err, b.pause))
		b.Status(fmt.Sprintf("waits %s, then tries again: %v", b.pause, err))
		sleep(ctx, b.pause)
		b.pause = min(2*b.pause, mostPause)
	}
}

// session goes on from when the API server is there until it is lost.
func (b *bootstrap) session(ctx context.Context) error {
	if err := b.await(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lost := make(chan error, 2)
	// A node that was there before asks for its next certificate at any time.
	go func() { lost <- b.followRequests(ctx) }()
	go func() { lost <- b.keep(ctx) }()
	err := <-lost
	cancel()
	<-lost // always "context canceled" or the same reason
	return err
}

// keep applies everything, and follows the nodes and the namespaces from then on.
func (b *bootstrap) keep(ctx context.Context) error {
	if err := b.applyAll(ctx); err != nil {
		return err
	}
	if err := b.readApplied(ctx); err != nil {
		return err
	}
	b.pause = pause
	b.Applied()
	b.Status("everything is applied; approves certificates of kubelets, keeps labels and taints of nodes, and binds " +
		"people's rights in namespaces")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lost := make(chan error, 2)
	go func() { lost <- b.followNamespaces(ctx) }()
	go func() { lost <- b.followNodes(ctx) }()
	err := <-lost
	cancel()
	<-lost
	return err
}

// await waits for the API server to say that it is ready.
func (b *bootstrap) await(ctx context.Context) error {
	last := ""
	for {
		err := b.Client.Ready(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		b.Status("waits for the API server to be ready: " + err.Error())
		if err.Error() != last {
			last = err.Error()
			b.Say("waits for the API server to be ready: " + last)
		}
		sleep(ctx, pause)
	}
}

// applyAll applies every object that is not there as it should be.
func (b *bootstrap) applyAll(ctx context.Context) error {
	b.Status("applies roles, cluster DNS and namespaces")
	begin := time.Now()
	b.changed = 0
	list, err := objects(b.Cluster)
	if err != nil {
		return err
	}
	for _, a := range list {
		if err := b.apply(ctx, a); err != nil {
			return err
		}
	}
	if err := b.Client.Apply(ctx, dnsSlice(b.servers), true); err != nil {
		return fmt.Errorf("apply the servers of the DNS Service: %w", err)
	}
	b.Status("applies the kinds and settings of Calico")
	kinds, err := b.Kinds(ctx)
	if err != nil {
		return fmt.Errorf("kinds of Calico: %w", err)
	}
	for _, o := range kinds {
		if err := b.apply(ctx, applied{object: o}); err != nil {
			return err
		}
	}
	settings, err := calicoObjects(b.Cluster)
	if err != nil {
		return err
	}
	for _, a := range settings {
		if err := b.applyServed(ctx, a); err != nil {
			return err
		}
	}
	if err := b.letKubeletsAsk(ctx); err != nil {
		return err
	}
	b.Say(fmt.Sprintf("applied %d of %d objects in %s", b.changed, len(list)+len(kinds)+len(settings)+1, time.Since(begin).Round(time.Millisecond)))
	return nil
}

// defaultAccount is there when the controllers work: one of them makes it, and none begins before all are made.
const defaultAccount = "/api/v1/namespaces/kube-system/serviceaccounts/default"

// letKubeletsAsk lets kubelets ask for certificates when there is somebody who signs them. Before, their programs would
// ask the API server without end while kube-controller-manager makes its controllers through it, one after the other.
func (b *bootstrap) letKubeletsAsk(ctx context.Context) error {
	for {
		err := b.Client.get(ctx, defaultAccount, nil)
		if err == nil {
			return b.apply(ctx, kubeletsMayAsk())
		}
		if !isStatus(err, http.StatusNotFound) {
			return fmt.Errorf("ask whether the controllers work: %w", err)
		}
		b.Status("waits for kube-controller-manager, which signs the certificates of kubelets, to work")
		if sleep(ctx, pause); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// apply applies an object where it is not there as it should be.
func (b *bootstrap) apply(ctx context.Context, a applied) error {
	object, err := marked(a.object)
	if err != nil {
		return err
	}
	if there, err := b.Client.present(ctx, object); err == nil && there {
		return nil
	}
	b.changed++
	err = b.Client.Apply(ctx, object, !a.theirs)
	if a.theirs && isStatus(err, http.StatusConflict) {
		b.sayOnce(nameOf(a.object) + " has been changed by a person and stays as it is")
		return nil
	}
	if err != nil {
		return fmt.Errorf("apply %s: %w", nameOf(a.object), err)
	}
	return nil
}

// applyServed waits for the kind of an object to be served.
func (b *bootstrap) applyServed(ctx context.Context, a applied) error {
	ctx, cancel := context.WithTimeout(ctx, servedBound*time.Duration(kubernetes.Of(b.Cluster.Services).Slow()))
	defer cancel()
	for {
		err := b.apply(ctx, a)
		if !isStatus(err, http.StatusNotFound) {
			return err
		}
		b.Status(fmt.Sprintf("waits for the API server to serve the kind of %s", nameOf(a.object)))
		if sleep(ctx, pause/4); ctx.Err() != nil {
			return err
		}
	}
}

// followNodes keeps labels and taints of the nodes, and the servers of cluster DNS.
func (b *bootstrap) followNodes(ctx context.Context) error {
	// The first listing applies the labels of every node, by which those go that were there by an earlier cluster.yaml.
	again := true
	b.measures = map[string]string{}
	ready := map[string]bool{}
	serve := func() error {
		if again || !b.setReady(ready) {
			return nil
		}
		if err := b.Client.Apply(ctx, dnsSlice(b.servers), true); err != nil {
			return fmt.Errorf("apply the servers of the DNS Service: %w", err)
		}
		return nil
	}
	return b.Client.follow(ctx, "/api/v1/nodes", func() error { again = false; return serve() }, func(deleted bool, data json.RawMessage) error {
		var n node
		if err := json.Unmarshal(data, &n); err != nil {
			return fmt.Errorf("node: %w", err)
		}
		ready[n.Metadata.Name] = n.ready() && !deleted
		if err := serve(); err != nil || deleted {
			return err
		}
		if err := b.keepNode(ctx, &n, again); err != nil {
			return err
		}
		return b.letMeasure(ctx, &n)
	})
}

// setReady notes which servers of cluster DNS are on nodes that are ready, and tells whether that has changed.
func (b *bootstrap) setReady(ready map[string]bool) bool {
	changed := false
	for i := range b.servers {
		s := &b.servers[i]
		if s.ready != ready[s.node] {
			s.ready, changed = ready[s.node], true
		}
	}
	return changed
}

// requestsPath is the collection of requests for certificates.
const requestsPath = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// followRequests decides about the certificates that are asked for.
func (b *bootstrap) followRequests(ctx context.Context) error {
	return b.Client.follow(ctx, requestsPath, func() error { return nil }, func(deleted bool, data json.RawMessage) error {
		if deleted {
			return nil
		}
		return b.decide(ctx, data)
	})
}

func (b *bootstrap) decide(ctx context.Context, data json.RawMessage) error {
	var o struct {
		meta
		Spec   Request `json:"spec"`
		Status struct {
			Conditions []struct{ Type string } `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return fmt.Errorf("request for a certificate: %w", err)
	}
	if len(o.Status.Conditions) > 0 { // decided already
		return nil
	}
	verdict, reason := b.known.Decide(o.Spec)
	if verdict == Unknown {
		if len(b.Cluster.Members["control-plane"]) > 1 {
			b.sayOnce(fmt.Sprintf("leaves the requests of %.100q to masters with a newer configuration: %s", o.Spec.Username, reason))
			return nil
		}
		verdict = Deny
	}
	var condition map[string]any
	switch verdict {
	case Leave:
		return nil
	case Approve:
		condition = map[string]any{"type": "Approved", "status": "True", "reason": "NodeOfClusterYAML", "message": "it is what cluster.yaml says of the node that asks"}
	case Deny:
		condition = map[string]any{"type": "Denied", "status": "True", "reason": "NotOfClusterYAML", "message": reason}
	}
	var whole Object
	if err := json.Unmarshal(data, &whole); err != nil {
		return fmt.Errorf("request for a certificate: %w", err)
	}
	whole["status"] = map[string]any{"conditions": []any{condition}}
	err := b.Client.put(ctx, requestsPath+"/"+o.Metadata.Name+"/approval", whole)
	switch {
	case isStatus(err, http.StatusConflict), isStatus(err, http.StatusNotFound):
		return nil // another master was faster, or it is gone; a change comes as an event of its own
	case isStatus(err, http.StatusUnprocessableEntity), isStatus(err, http.StatusForbidden):
		// Nothing would change by trying again.
		b.Say(fmt.Sprintf("request %s of %.100q: %v", o.Metadata.Name, o.Spec.Username, err))
		return nil
	case err != nil:
		return fmt.Errorf("request %s of %.100q: %w", o.Metadata.Name, o.Spec.Username, err)
	}
	if verdict == Approve {
		b.Say(fmt.Sprintf("approved the request %s of %s (%s)", o.Metadata.Name, o.Spec.Username, o.Spec.SignerName))
	} else {
		b.Say(fmt.Sprintf("denied the request %s of %.100q: %s", o.Metadata.Name, o.Spec.Username, reason))
	}
	return nil
}

// sayOnce says a thing the first time only.
func (b *bootstrap) sayOnce(text string) {
	if !b.said[text] {
		b.said[text] = true
		b.Say(text)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// ParseKinds reads what `calico crds` prints: one definition a line, as JSON.
func ParseKinds(data []byte) ([]Object, error) {
	var out []Object
	d := json.NewDecoder(bytes.NewReader(data))
	for d.More() {
		var o Object
		if err := d.Decode(&o); err != nil {
			return nil, fmt.Errorf("definition %d: %w", len(out)+1, err)
		}
		if o["kind"] != "CustomResourceDefinition" {
			return nil, fmt.Errorf("definition %d is a %v and no CustomResourceDefinition", len(out)+1, o["kind"])
		}
		delete(o, "status")
		if metadata, ok := o["metadata"].(map[string]any); ok && metadata["creationTimestamp"] == nil {
			delete(metadata, "creationTimestamp") // Go writes null where there is no time.
		}
		out = append(out, o)
	}
	if len(out) == 0 {
		return nil, errors.New("there is none")
	}
	return out, nil
}
