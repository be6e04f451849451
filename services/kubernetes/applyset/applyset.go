// Package applyset has the masters apply the Kubernetes objects of manifests/ and keep them: what differs is put right,
// what was taken out of the folder is pruned, and an object that cannot be applied keeps no other from being applied.
//
// The objects are an ApplySet (KEP-3659, "kubectl apply prune"): each has a label that names the set, and the set's
// parent, the ConfigMap spore-manifests in kube-system, says which kinds and namespaces have members. So nothing that
// was ever applied is forgotten, and other tools see whose it is. Objects are applied by server-side apply with a field
// manager of our own, with force. Only what has both our label and our field manager is pruned: controllers copy labels
// (that of a Service to its EndpointSlices).
//
// What the API server holds is as the folder has it as long as our field manager still owns the same fields: whoever
// else changes one takes its ownership. So one list of each kind tells what drifted, whatever form the server gives to
// values.
//
// One master acts. Two that have the same objects would do no harm, since applying is idempotent; but while a push goes
// from master to master they have different ones, and the older would prune what the newer has just brought. So the
// parent records whose objects it holds, and a master with an older configuration stands by (type Configuration).
package applyset

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"spore/cluster/facts"
	"spore/services/kubernetes/kubeapi"
)

// Manager is whom server-side apply says that the fields of the folder's objects belong to.
const Manager = "spore-manifests"

// The parent of the set.
const (
	parentName      = "spore-manifests"
	parentNamespace = "kube-system"
	collectionPath  = "/api/v1/namespaces/" + parentNamespace + "/configmaps"
	parentPath      = collectionPath + "/" + parentName
)

// Labels and annotations: those of the specification, where an object was written, whether it was there before the
// folder had it, and what keeps one that is taken out.
const (
	idLabel              = "applyset.kubernetes.io/id"
	partOfLabel          = "applyset.kubernetes.io/part-of"
	toolingAnnotation    = "applyset.kubernetes.io/tooling"
	kindsAnnotation      = "applyset.kubernetes.io/contains-group-kinds"
	namespacesAnnotation = "applyset.kubernetes.io/additional-namespaces"
	fileAnnotation       = "spore/file"
	foundAnnotation      = "spore/found"
	pruneAnnotation      = "spore/prune"
	pruneNever           = "never"
	tooling              = "spore/v1"
)

// Times, on machines of usual speed.
const (
	// beat is how often the acting master says that it acts, and the others look.
	beat = 30 * time.Second
	// every is how often everything is compared.
	every = 5 * time.Minute
	// firstRetry is the pause after a round with problems, which doubles up to every.
	firstRetry = time.Second
	// silent is how long the acting master may be silent before another with the same objects acts, and gone how long
	// before one with older objects does: longer than a machine takes to start with a new root.
	silent = 2 * time.Minute
	gone   = 15 * time.Minute
)

// ID is the value of the label of all members: the base64 of the hash of NAME.NAMESPACE.KIND.GROUP of the parent
// (KEP-3659).
func ID() string {
	sum := sha256.Sum256([]byte(parentName + "." + parentNamespace + ".ConfigMap."))
	return "applyset-" + base64.RawURLEncoding.EncodeToString(sum[:]) + "-v1"
}

// API is what is needed of the client of the API.
type API interface {
	Do(ctx context.Context, r kubeapi.Call) error
	List(ctx context.Context, path, selector string, each func(json.RawMessage) error) error
}

// Keeper keeps the objects of a configuration.
type Keeper struct {
	API API
	// Node is this master.
	Node string
	// Objects are those of the configuration; none has what there was pruned.
	Objects []facts.Manifest
	// Configuration says whose they are.
	Configuration Configuration
	// Alone is that the cluster has no other master: what this one has acted with before was taken back.
	Alone bool
	// Slow is the factor by which the machines are slower than usual ones.
	Slow int
	// Say writes a line for people, Tell what is known of the set.
	Say  func(string)
	Tell func(State)

	kinds discovery
	// applied has, by object, what the server answered when it was applied.
	applied map[member]mark
	parent  *parent
	// written is when the parent was written last, and seen since when it has not changed.
	written, seen time.Time
	// retry is the pause after a round with problems, next when a round is due.
	retry time.Duration
	next  time.Time
	said  string
	now   func() time.Time
}

// errLost is that another master acts now.
var errLost = errors.New("another master acts")

// Run keeps the objects until the context ends, or until there is nothing to keep and nothing left of an earlier
// folder.
func (k *Keeper) Run(ctx context.Context) {
	k.prepare()
	for ctx.Err() == nil {
		wait, done := k.step(ctx)
		if done {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

func (k *Keeper) prepare() {
	k.kinds = discovery{api: k.API}
	k.applied = map[member]mark{}
	k.retry = firstRetry
	if k.now == nil {
		k.now = time.Now
	}
}

// slow is a time on this machine.
func (k *Keeper) slow(d time.Duration) time.Duration { return d * time.Duration(max(k.Slow, 1)) }

// step looks at who acts, and acts where this master does. It returns how long to wait for the next one.
func (k *Keeper) step(ctx context.Context) (wait time.Duration, done bool) {
	acts, done, err := k.turn(ctx)
	switch {
	case done:
		return 0, true
	case errors.Is(err, errLost):
		return time.Second, false
	case err != nil:
		k.sayOnce(fmt.Sprintf("manifests: %v; tries again", err))
		return k.slow(beat) / 3, false
	case !acts:
		r := k.parent.record
		k.Tell(State{Holder: r.Holder, Objects: len(k.Objects), Newer: r.Hash != k.Configuration.Hash})
		k.next = time.Time{} // whoever acted meanwhile may have changed anything
		return k.slow(beat), false
	}
	now := k.now()
	if now.Before(k.next) {
		return min(k.next.Sub(now), k.slow(beat)), false
	}
	out, err := k.round(ctx)
	if errors.Is(err, errLost) || ctx.Err() != nil {
		return 0, false
	}
	if err != nil {
		out.problems = append(out.problems, Problem{Reason: err.Error()})
	}
	k.tell(out)
	pause := k.slow(every)
	if !out.settled() {
		pause = min(k.retry, pause)
		k.retry *= 2
	} else {
		k.retry = firstRetry
	}
	k.retry = min(k.retry, k.slow(every))
	k.next = k.now().Add(pause)
	return min(pause, k.slow(beat)), false
}

// sayOnce says a line that is another than the last one.
func (k *Keeper) sayOnce(text string) {
	if k.said != text {
		k.said = text
		k.Say(text)
	}
}

// tell says how a round has ended.
func (k *Keeper) tell(out outcome) {
	problems := out.problems
	s := State{
		Holder: k.Node, Here: true, Objects: len(k.Objects), Count: len(problems),
		Problems: problems[:min(len(problems), maxProblems)],
	}
	if len(out.stays) > 0 {
		s.Stays, s.MoreStay = firstStays(out.stays)
	}
	k.Tell(s)
	if len(problems) == 0 {
		k.sayOnce(fmt.Sprintf("manifests: %d objects are as the folder has them", len(k.Objects)))
		return
	}
	var lines []string
	for _, p := range s.Problems {
		lines = append(lines, p.String())
	}
	k.sayOnce(fmt.Sprintf("manifests: %d problems: %s", len(problems), strings.Join(lines, "; ")))
}

// get reads an object.
func (k *Keeper) get(ctx context.Context, path string, into any) error {
	return k.API.Do(ctx, kubeapi.Call{Method: http.MethodGet, Path: path, Into: into})
}
