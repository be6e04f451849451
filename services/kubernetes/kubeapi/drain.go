package kubeapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// evictEvery is DrainOptions.Every where it is 0.
const evictEvery = 2 * time.Second

// drainPatience is DrainOptions.Patience where it is 0.
const drainPatience = 2 * time.Minute

// maxShown is how many pods are named in one line.
const maxShown = 10

// Cordon says whether a node gets new pods (Node, spec.unschedulable). It tells whether that is another answer than
// before.
func (c *Client) Cordon(ctx context.Context, name string, cordoned bool) (changed bool, err error) {
	now, err := c.cordoned(ctx, name)
	if err != nil || now == cordoned {
		return false, err
	}
	return true, c.merge(ctx, nodePath(name), Object{"spec": map[string]any{"unschedulable": cordoned}})
}

func nodePath(name string) string { return "/api/v1/nodes/" + url.PathEscape(name) }

// cordoned tells whether a node gets no new pods.
func (c *Client) cordoned(ctx context.Context, name string) (bool, error) {
	var n struct {
		Spec struct {
			Unschedulable bool `json:"unschedulable"`
		} `json:"spec"`
	}
	err := c.get(ctx, nodePath(name), &n)
	return n.Spec.Unschedulable, err
}

// DrainOptions say what a drain may do.
type DrainOptions struct {
	// Lose allows to evict pods that nobody makes again, and pods with data in a volume that goes with them (emptyDir).
	Lose bool
	// DryRun says what would be evicted.
	DryRun bool
	// Say is told for whom is waited.
	Say func(string)
	// Every is how often an eviction is asked for again, and how often it is looked whether pods have gone; 0 is 2 s.
	Every time.Duration
	// Patience is how long failed calls are borne once pods are being evicted; 0 is 2 min.
	Patience time.Duration
}

// pod is what matters here of a pod (core/v1).
type pod struct {
	Metadata struct {
		Name              string            `json:"name"`
		Namespace         string            `json:"namespace"`
		UID               string            `json:"uid"`
		Annotations       map[string]string `json:"annotations"`
		DeletionTimestamp string            `json:"deletionTimestamp"`
		OwnerReferences   []struct {
			Kind       string `json:"kind"`
			Controller bool   `json:"controller"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Volumes []struct {
			EmptyDir json.RawMessage `json:"emptyDir"`
		} `json:"volumes"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

func (p pod) label() string { return p.Metadata.Namespace + "/" + p.Metadata.Name }

func (p pod) path() string {
	return "/api/v1/namespaces/" + url.PathEscape(p.Metadata.Namespace) + "/pods/" + url.PathEscape(p.Metadata.Name)
}

// stays is true for a pod that a drain leaves: one of the node's own files, one of a DaemonSet, which would come again,
// and one that has ended.
func (p pod) stays() bool {
	_, mirror := p.Metadata.Annotations["kubernetes.io/config.mirror"]
	return mirror || p.controller() == "DaemonSet" || p.ended()
}

func (p pod) ended() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

// controller is the kind of what makes the pod again; "" where nothing does.
func (p pod) controller() string {
	for _, o := range p.Metadata.OwnerReferences {
		if o.Controller {
			return o.Kind
		}
	}
	return ""
}

// loses says what would be lost with a pod; "" for nothing.
func (p pod) loses() string {
	if p.controller() == "" {
		return "nothing makes it again"
	}
	for _, v := range p.Spec.Volumes {
		if v.EmptyDir != nil {
			return "it has data in an emptyDir"
		}
	}
	return ""
}

// Drain keeps new pods off a node and evicts those that it has, as their disruption budgets allow (policy/v1,
// Eviction). It returns when they are gone, with how many were. It ends with an error when somebody lets pods on the
// node again.
func (c *Client) Drain(ctx context.Context, name string, o DrainOptions) (int, error) {
	pods, err := c.evictable(ctx, name)
	if err != nil {
		return 0, err
	}
	if err := o.allows(pods); err != nil {
		return 0, fmt.Errorf("nothing was changed: %w", err)
	}
	if o.DryRun {
		for _, p := range pods {
			o.Say("would evict " + p.label())
		}
		return len(pods), nil
	}
	closed, err := c.Cordon(ctx, name, true)
	if err != nil {
		return 0, err
	}
	// Again, since one may have come before the node was closed.
	if pods, err = c.evictable(ctx, name); err == nil {
		err = o.allows(pods)
	}
	if err != nil {
		return 0, c.reopen(ctx, name, closed, err)
	}
	return len(pods), c.evictAll(ctx, name, pods, o)
}

// allows says with which pods something would be lost that may not be.
func (o DrainOptions) allows(pods []pod) error {
	if o.Lose {
		return nil
	}
	var lost []string
	for _, p := range pods {
		if why := p.loses(); why != "" {
			lost = append(lost, fmt.Sprintf("%s (%s)", p.label(), why))
		}
	}
	if len(lost) > 0 {
		return fmt.Errorf("something would be lost with %s; allow it with --lose", shorten(lost))
	}
	return nil
}

// reopen lets pods on a node again that this drain has closed, before it ends for a reason.
func (c *Client) reopen(ctx context.Context, name string, closed bool, why error) error {
	if !closed {
		return fmt.Errorf("no pod was evicted, and %s gets no new ones, as before: %w", name, why)
	}
	// The reason may be that the time of the drain is over; a request has a bound of its own.
	if _, err := c.Cordon(context.WithoutCancel(ctx), name, false); err != nil {
		return fmt.Errorf("no pod was evicted, and %s gets no new ones: let pods on it again with spore uncordon %s: %w",
			name, name, errors.Join(why, err))
	}
	return fmt.Errorf("no pod was evicted, and %s gets new ones again: %w", name, why)
}

// evictable are the pods of a node that a drain evicts.
func (c *Client) evictable(ctx context.Context, name string) ([]pod, error) {
	var out []pod
	next := ""
	for {
		q := url.Values{"fieldSelector": {"spec.nodeName=" + name}, "limit": {strconv.Itoa(pageSize)}}
		if next != "" {
			q.Set("continue", next)
		}
		var page struct {
			meta
			Items []pod `json:"items"`
		}
		if err := c.get(ctx, "/api/v1/pods?"+q.Encode(), &page); err != nil {
			return nil, err
		}
		for _, p := range page.Items {
			if !p.stays() {
				out = append(out, p)
			}
		}
		if next = page.Metadata.Continue; next == "" {
			return out, nil
		}
	}
}

// evictAll asks for each pod until it has gone. What holds one up is told when it is another reason than before. Failed
// calls are asked again, since the API server of this master may be the one that restarts meanwhile.
func (c *Client) evictAll(ctx context.Context, name string, pods []pod, o DrainOptions) error {
	left := slices.Clone(pods)
	last := ""
	var failing time.Time // since when calls have failed
	for len(left) > 0 {
		cordoned, err := c.cordoned(ctx, name)
		if err == nil && !cordoned {
			return fmt.Errorf("somebody let pods on %s again; %d were left", name, len(left))
		}
		var wait []string
		if err == nil {
			left, wait, err = c.round(ctx, left)
		}
		text := "waiting for " + shorten(wait)
		switch {
		case len(left) == 0:
			return nil
		case err == nil:
			failing = time.Time{}
		case failing.IsZero():
			failing = time.Now()
			fallthrough
		default:
			if ctx.Err() == nil && time.Since(failing) >= cmp.Or(o.Patience, drainPatience) {
				return fmt.Errorf("%d pods are still on %s, which gets no new ones: %w", len(left), name, err)
			}
			text = fmt.Sprintf("asking again: %v", err)
		}
		if text != last {
			o.Say(text)
			last = text
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d pods are still on %s, which gets no new ones: %w", len(left), name, ctx.Err())
		case <-time.After(cmp.Or(o.Every, evictEvery)):
		}
	}
	return nil
}

// round asks for each of some pods once, and returns those that are left, with what they wait for. What the API server
// answers about one of them does not keep the others; without an answer the others are not asked for, either.
func (c *Client) round(ctx context.Context, pods []pod) (left []pod, wait []string, problem error) {
	for i, p := range pods {
		gone, why, err := c.evict(ctx, p)
		switch {
		case err != nil:
			problem, left = err, append(left, p)
			if s := (*StatusError)(nil); !errors.As(err, &s) {
				return append(left, pods[i+1:]...), wait, problem
			}
		case !gone:
			left, wait = append(left, p), append(wait, p.label()+why)
		}
	}
	return left, wait, problem
}

// evict asks for one pod, and tells whether it has gone, or what holds it up.
func (c *Client) evict(ctx context.Context, p pod) (gone bool, why string, err error) {
	var now pod
	err = c.get(ctx, p.path(), &now)
	switch {
	case isStatus(err, http.StatusNotFound):
		return true, "", nil
	case err != nil:
		return false, "", err
	case now.Metadata.UID != p.Metadata.UID || now.ended():
		return true, "", nil
	case now.Metadata.DeletionTimestamp != "":
		return false, " (it is ending)", nil
	}
	err = c.do(ctx, http.MethodPost, p.path()+"/eviction", "application/json", Object{
		"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata":      map[string]any{"name": p.Metadata.Name, "namespace": p.Metadata.Namespace},
		"deleteOptions": map[string]any{"preconditions": map[string]any{"uid": p.Metadata.UID}},
	}, nil)
	switch {
	case err == nil, isStatus(err, http.StatusConflict): // Conflict: another pod has the name meanwhile.
		return false, " (it is ending)", nil
	case isStatus(err, http.StatusNotFound):
		return true, "", nil
	case isStatus(err, http.StatusTooManyRequests):
		return false, " (its disruption budget)", nil
	}
	return false, "", err
}

// shorten names the first of a list, and how many more there are.
func shorten(list []string) string {
	if len(list) <= maxShown {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:maxShown], ", "), len(list)-maxShown)
}
