package cis

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"spore/pki"
	"spore/services"
)

// noAdmin holds where a node keeps a kubeconfig of the administrator.
func noAdmin(e Evidence) error {
	for p := range e.Master.Files {
		if strings.Contains(path.Base(p), "admin") {
			return nil
		}
	}
	return errors.New("no node has one; `spore kubeconfig` makes it where the operator's keys are")
}

// noPods holds where pods of ours run.
func noPods(e Evidence) error {
	for _, o := range e.Objects {
		if slices.Contains([]string{"Pod", "Deployment", "DaemonSet", "StatefulSet", "Job"}, o.string("kind")) {
			return nil
		}
	}
	return errors.New("we make no pods; those of others are theirs to judge")
}

// noneOfOurs is for what only the users of a cluster can do.
func noneOfOurs(what string) func(Evidence) error {
	return func(Evidence) error { return fmt.Errorf("the %s are those that the cluster's users make", what) }
}

func ownedBy(file, user string) func(Evidence) error {
	return func(e Evidence) error {
		f, ok := e.Master.Files[file]
		if !ok {
			return fmt.Errorf("there is no file %s", file)
		}
		if f.Owner != user+":"+user {
			return fmt.Errorf("%s is of %s", file, f.Owner)
		}
		return nil
	}
}

func isSet(program, flag string) func(Evidence) error {
	return func(e Evidence) error {
		if _, ok := value(e.Master.Arguments[program], flag); !ok {
			return fmt.Errorf("no `%s`", flag)
		}
		return nil
	}
}

func isNotSet(program, flag string) func(Evidence) error {
	return func(e Evidence) error {
		if v, ok := value(e.Master.Arguments[program], flag); ok && v != "false" {
			return fmt.Errorf("`%s=%s`", flag, v)
		}
		return nil
	}
}

// runs holds when both nodes run a program.
func runs(program string) func(Evidence) error {
	return func(e Evidence) error {
		for _, n := range []Node{e.Master, e.Worker} {
			if len(n.Arguments[program]) == 0 {
				return fmt.Errorf("a node does not run %s", program)
			}
		}
		return nil
	}
}

// anonymousOnlyHealth holds when whoever has no name gets no further than the health.
func anonymousOnlyHealth(e Evidence) error {
	if v, ok := value(e.Master.Arguments["kube-apiserver"], "--anonymous-auth"); ok {
		if v == "false" {
			return nil
		}
		return errors.New("`--anonymous-auth=" + v + "`")
	}
	var config struct {
		Anonymous *struct {
			Enabled    bool
			Conditions []struct{ Path string }
		}
	}
	if err := e.Master.named("kube-apiserver", "--authentication-config", &config); err != nil {
		return err
	}
	if config.Anonymous == nil {
		return errors.New("the authentication file says nothing about whoever has no name")
	}
	if !config.Anonymous.Enabled {
		return nil
	}
	if len(config.Anonymous.Conditions) == 0 {
		return errors.New("whoever has no name may ask for everything")
	}
	for _, c := range config.Anonymous.Conditions {
		if !slices.Contains([]string{"/livez", "/readyz", "/healthz"}, c.Path) {
			return fmt.Errorf("whoever has no name may ask for %s", c.Path)
		}
	}
	return nil
}

// encryptionProvider is the first provider for each kind of object, which is the one that encrypts.
func encryptionProvider(e Evidence) ([]found, error) {
	var config struct {
		Resources []struct {
			Resources []string
			Providers []map[string]any
		}
	}
	if err := e.Master.named("kube-apiserver", "--encryption-provider-config", &config); err != nil {
		return nil, err
	}
	var out []found
	secrets := false
	for _, r := range config.Resources {
		secrets = secrets || slices.Contains(r.Resources, "secrets")
		for name := range first(r.Providers) {
			out = append(out, found{lines: []string{"provider=" + name}, of: strings.Join(r.Resources, ", ")})
		}
	}
	if !secrets {
		return nil, errors.New("secrets are not among what is encrypted")
	}
	return out, nil
}

func first(list []map[string]any) map[string]any {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// etcdBySocket holds where the API server reaches etcd by nothing but a socket, in a folder that is closed to all but
// etcd's group.
func etcdBySocket(e Evidence) error {
	words, err := e.Master.flags("kube-apiserver")
	if err != nil {
		return nil
	}
	servers, _ := value(words, "--etcd-servers")
	socket, ok := strings.CutPrefix(servers, "unix://")
	if !ok || e.Master.Files[path.Dir(socket)] != (File{"710", "etcd:etcd"}) {
		return nil
	}
	return fmt.Errorf("it reaches its own etcd by a socket, not by TCP; "+
		"none but etcd, the API server and root may enter the folder of `%s`", socket)
}

// etcdHasItsOwnAuthority holds when no program but etcd and its clients is verified by the authorities of etcd.
func etcdHasItsOwnAuthority(e Evidence) error {
	own, err := e.Master.flags("etcd")
	if err != nil {
		return err
	}
	trusted := map[string]bool{}
	for _, flag := range []string{"--trusted-ca-file", "--peer-trusted-ca-file"} {
		v, ok := value(own, flag)
		if !ok {
			return fmt.Errorf("no `%s`", flag)
		}
		trusted[v] = true
	}
	for _, program := range programs {
		for _, word := range e.Master.Arguments[program] {
			flag, v, _ := strings.Cut(word, "=")
			if program != "etcd" && flag != "--etcd-cafile" && trusted[v] {
				return fmt.Errorf("`%s` of %s is an authority of etcd", flag, program)
			}
		}
	}
	return nil
}

// noLeafFor holds when the table of keys has no certificate of that name.
func noLeafFor(name string) func(Evidence) error {
	return func(Evidence) error {
		for _, l := range pki.Leaves(services.Ours()) {
			if l.Name == name {
				return fmt.Errorf("the table of keys has `%s`", name)
			}
		}
		return nil
	}
}

// noMasters holds when no certificate is of the group that may do everything.
func noMasters(Evidence) error {
	var names []string
	for _, l := range pki.Leaves(services.Ours()) {
		if slices.Contains(l.Organization, "system:masters") {
			names = append(names, "`"+l.Name+"`")
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("certificates of that group: %s", strings.Join(names, ", "))
	}
	return nil
}

func noObjects(kinds ...string) func(Evidence) error {
	return func(e Evidence) error {
		for _, o := range e.Objects {
			if kind := o.string("kind"); slices.Contains(kinds, kind) && o.string("metadata", "name") != "default" {
				return fmt.Errorf("there is the %s %s", kind, o.string("metadata", "name"))
			}
		}
		return nil
	}
}

func hasObjects(kind string) func(Evidence) error {
	return func(e Evidence) error {
		for _, o := range e.Objects {
			if o.string("kind") == kind {
				return nil
			}
		}
		return fmt.Errorf("we make no %s", kind)
	}
}

// nothingInDefault holds when we put nothing into the namespace default but what lets people look at it and change it.
func nothingInDefault(e Evidence) error {
	for _, o := range e.Objects {
		if o.string("metadata", "namespace") == "default" && o.string("kind") != "ServiceAccount" && !bindsPeople(o) {
			return fmt.Errorf("%s %s is in the namespace default", o.string("kind"), o.string("metadata", "name"))
		}
	}
	return nil
}

// auditCovers asks the audit policy what becomes of requests that the benchmark names.
func auditCovers(e Evidence) error {
	var p policy
	if err := e.Master.named("kube-apiserver", "--audit-policy-file", &p); err != nil {
		return err
	}
	for _, r := range []struct {
		verb, group, resource string
		quiet                 bool // no bodies
	}{
		{"get", "", "secrets", true}, {"create", "", "secrets", true}, {"update", "", "configmaps", true},
		{"create", "authentication.k8s.io", "tokenreviews", true}, {"create", "", "serviceaccounts/token", true},
		{"create", "", "pods", false}, {"delete", "", "pods", false}, {"update", "apps", "deployments", false},
		{"create", "", "pods/exec", false}, {"create", "", "pods/portforward", false}, {"get", "", "pods/proxy", false}, {"get", "", "services/proxy", false},
	} {
		level := p.level(r.verb, r.group, r.resource)
		if level == "" || level == "None" || r.quiet && level != "Metadata" {
			return fmt.Errorf("a person's %s of %s is logged at the level %q", r.verb, r.resource, level)
		}
	}
	return nil
}

// policy is audit.k8s.io/v1 Policy, as far as it is needed here.
type policy struct {
	Rules []struct {
		Level             string
		Users, UserGroups []string
		Verbs, Namespaces []string
		NonResourceURLs   []string
		Resources         []struct {
			Group     string
			Resources []string
		}
	}
}

// level is that of the first rule that is for a person's request; a person is in no rule's list of users or groups.
func (p policy) level(verb, group, resource string) string {
	for _, r := range p.Rules {
		if len(r.Users) > 0 || len(r.UserGroups) > 0 || len(r.NonResourceURLs) > 0 || len(r.Namespaces) > 0 {
			continue
		}
		if len(r.Verbs) > 0 && !slices.Contains(r.Verbs, verb) {
			continue
		}
		matches := len(r.Resources) == 0
		for _, of := range r.Resources {
			matches = matches || of.Group == group && (len(of.Resources) == 0 || slices.Contains(of.Resources, resource))
		}
		if matches {
			return r.Level
		}
	}
	return ""
}

// kubelets holds a function against the configuration of both kubelets.
func kubelets(e Evidence, ok func(words []string, config map[string]any) error) error {
	for _, n := range []Node{e.Master, e.Worker} {
		data, err := n.config("kubelet")
		if err != nil {
			return err
		}
		var config map[string]any
		if err := json.Unmarshal(data, &config); err != nil {
			return err
		}
		if err := ok(n.Arguments["kubelet"], config); err != nil {
			return err
		}
	}
	return nil
}

func kubeletServes(e Evidence) error {
	return kubelets(e, func(_ []string, config map[string]any) error {
		if config["serverTLSBootstrap"] != true && (config["tlsCertFile"] == nil || config["tlsPrivateKeyFile"] == nil) {
			return errors.New("it would make a certificate of its own")
		}
		return nil
	})
}

func kubeletCiphers(e Evidence) error {
	return kubelets(e, func(_ []string, config map[string]any) error {
		if config["tlsMinVersion"] != "VersionTLS13" {
			return errors.New("it speaks TLS before 1.3")
		}
		return nil
	})
}

// nftables holds when no program of the nodes works with iptables.
func nftables(e Evidence) error {
	for _, n := range []Node{e.Master, e.Worker} {
		config, err := n.config("kube-proxy")
		if err != nil {
			return err
		}
		if mode, _, err := findPath(config, "{.mode}"); err != nil || mode != "nftables" {
			return fmt.Errorf("kube-proxy is in the mode %q", mode)
		}
	}
	return nil
}

func seccompDefault(e Evidence) error {
	return kubelets(e, func(_ []string, config map[string]any) error {
		if config["seccompDefault"] != true {
			return errors.New("no `seccompDefault: true`")
		}
		return nil
	})
}

// podSecurityAtLeast holds when namespaces without labels enforce one of the levels.
func podSecurityAtLeast(levels ...string) func(Evidence) error {
	return func(e Evidence) error {
		var config struct {
			Plugins []struct {
				Name          string
				Configuration struct {
					Defaults struct{ Enforce string }
				}
			}
		}
		if err := e.Master.named("kube-apiserver", "--admission-control-config-file", &config); err != nil {
			return err
		}
		for _, p := range config.Plugins {
			if p.Name != "PodSecurity" {
				continue
			}
			if enforced := p.Configuration.Defaults.Enforce; !slices.Contains(levels, enforced) {
				return fmt.Errorf("namespaces without labels enforce `%s`", enforced)
			}
			return nil
		}
		return errors.New("the admission file says nothing about PodSecurity")
	}
}

func admits(plugin string) func(Evidence) error {
	return func(e Evidence) error {
		v, _ := value(e.Master.Arguments["kube-apiserver"], "--enable-admission-plugins")
		if !slices.Contains(strings.Split(v, ","), plugin) {
			return fmt.Errorf("no `%s`", plugin)
		}
		return nil
	}
}

// noEncryptionHere holds when the API does not keep Secrets by itself.
func noEncryptionHere(e Evidence) error {
	if v, ok := value(e.Master.Arguments["kube-apiserver"], "--encryption-provider-config"); ok {
		return fmt.Errorf("`--encryption-provider-config=%s`", v)
	}
	return nil
}

// Roles of Kubernetes itself that our bindings name, as far as a check asks for them.
var upstreamRoles = map[string][]Object{
	// plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go
	"system:kubelet-api-admin": {{"apiGroups": []any{""}, "resources": []any{"nodes/proxy"}, "verbs": []any{"*"}}},
	"system:node-bootstrapper": {{"apiGroups": []any{"certificates.k8s.io"}, "resources": []any{"certificatesigningrequests"}, "verbs": []any{"create", "get", "list", "watch"}}},
}

// people are the roles of Kubernetes itself that are bound to groups of people, for whom the operator makes a
// certificate of at most eight hours (spore kubeconfig --group). The checks are about who has rights without that.
var people = []string{"view", "edit", "admin"}

// bindsPeople tells whether an object is a binding of one of these groups.
func bindsPeople(o Object) bool {
	role := o.string("roleRef", "name")
	return slices.Contains(people, role) && o.string("metadata", "name") == "spore:"+role
}

// grant is one rule of a role that is bound to somebody.
type grant struct {
	subject, role string
	rule          Object
}

func (e Evidence) grants() ([]grant, error) {
	rules := map[string][]Object{}
	for _, o := range e.Objects {
		if kind := o.string("kind"); kind == "ClusterRole" || kind == "Role" {
			rules[o.string("metadata", "name")] = o.list("rules")
		}
	}
	var out []grant
	for _, o := range e.Objects {
		if kind := o.string("kind"); kind != "ClusterRoleBinding" && kind != "RoleBinding" {
			continue
		}
		role := o.string("roleRef", "name")
		if bindsPeople(o) {
			continue
		}
		of, ok := rules[role]
		if !ok {
			of, ok = upstreamRoles[role]
		}
		if !ok {
			return nil, fmt.Errorf("the binding %s names the role %s, whose rules are not known here", o.string("metadata", "name"), role)
		}
		for _, s := range o.list("subjects") {
			for _, r := range of {
				out = append(out, grant{s.string("name"), role, r})
			}
		}
	}
	return out, nil
}

// mayDo tells whether a rule allows one of the verbs on a resource.
func mayDo(rule Object, group, resource string, verbs ...string) bool {
	has := func(key string, words ...string) bool {
		list := rule.strings(key)
		return slices.Contains(list, "*") || slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
	}
	return has("apiGroups", group) && has("resources", resource) && has("verbs", verbs...)
}

func nobodyMay(group, resource string, verbs ...string) func(Evidence) error {
	return func(e Evidence) error {
		grants, err := e.grants()
		if err != nil {
			return err
		}
		for _, g := range grants {
			if mayDo(g.rule, group, resource, verbs...) {
				return fmt.Errorf("`%s` may %s %s", g.subject, strings.Join(verbs, "/"), resource)
			}
		}
		return nil
	}
}

func nobodyMayWrite(group string, resources ...string) func(Evidence) error {
	return func(e Evidence) error {
		for _, r := range resources {
			if err := nobodyMay(group, r, "create", "update", "patch", "delete")(e); err != nil {
				return err
			}
		}
		return nil
	}
}

func nobodyMayVerb(verbs ...string) func(Evidence) error {
	return func(e Evidence) error {
		grants, err := e.grants()
		if err != nil {
			return err
		}
		for _, g := range grants {
			for _, v := range g.rule.strings("verbs") {
				if slices.Contains(verbs, v) {
					return fmt.Errorf("`%s` may %s", g.subject, v)
				}
			}
		}
		return nil
	}
}

func noBindingTo(role string) func(Evidence) error {
	return func(e Evidence) error {
		grants, err := e.grants()
		if err != nil {
			return err
		}
		for _, g := range grants {
			if g.role == role {
				return fmt.Errorf("`%s` has the role %s", g.subject, role)
			}
		}
		return nil
	}
}

// noWildcards looks at the roles that we make.
func noWildcards(e Evidence) error {
	for _, o := range e.Objects {
		for _, r := range o.list("rules") {
			for _, key := range []string{"apiGroups", "resources", "verbs"} {
				if slices.Contains(r.strings(key), "*") {
					return fmt.Errorf("the role %s has * in %s", o.string("metadata", "name"), key)
				}
			}
		}
	}
	return nil
}

// onlyTheAPIReachesKubelets holds when nobody but the certificate that kube-apiserver has for kubelets may use them.
func onlyTheAPIReachesKubelets(e Evidence) error {
	grants, err := e.grants()
	if err != nil {
		return err
	}
	row, _ := services.Ours().LookupProgram("kube-apiserver")
	own := map[string]bool{}
	for _, l := range pki.Leaves(services.Ours()) {
		if slices.Contains(row.Secrets, l.Certificate) {
			own[l.CommonName] = true
			for _, o := range l.Organization {
				own[o] = true
			}
		}
	}
	for _, g := range grants {
		if mayDo(g.rule, "", "nodes/proxy", "get", "create") && !own[g.subject] {
			return fmt.Errorf("`%s` may use nodes/proxy", g.subject)
		}
	}
	return nil
}

// defaultAccountsHaveNoTokens looks at the accounts that Kubernetes makes in each namespace.
func defaultAccountsHaveNoTokens(e Evidence) error {
	seen := false
	for _, o := range e.Objects {
		if o.string("kind") == "ServiceAccount" && o.string("metadata", "name") == "default" {
			seen = true
			if o["automountServiceAccountToken"] != false {
				return errors.New("they are")
			}
		}
	}
	if !seen {
		return errors.New("they are")
	}
	return nil
}
