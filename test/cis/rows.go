package cis

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// row is what we have to say to one check of the list.
type row struct {
	id string
	// text says in own words what is asked.
	text string
	// found is what the list's condition is held against; each must pass.
	found func(Evidence) ([]found, error)
	// judge stands beside the list's condition, or in its place where the list leaves it to a person. It returns nil when
	// what is asked is so.
	judge func(Evidence) error
	// applies returns an error when what is asked is about something that is not there, which the error names.
	applies func(Evidence) error
	// seen is what judge looked at, when that is so.
	seen string
	// why is why it fails on purpose. given has to hold for it, where something can be looked at.
	why   string
	given func(Evidence) error
}

// rows are in the order of the list. A test holds that no check of it is missing.
var rows = slices.Concat(masterFiles, apiServer, controllerAndScheduler, etcd, controlPlane, nodeFiles, kubelet, access, podSecurity, policies)

const noManifests = "no program of the control plane is a pod; systemd runs them, by units on the verified read-only root"

// noPod holds where a check is about a static pod.
func noPod(e Evidence) error {
	for _, n := range []Node{e.Master, e.Worker} {
		config, err := n.config("kubelet")
		if err != nil {
			return nil
		}
		if _, set, err := findPath(config, "{.staticPodPath}"); err != nil || set {
			return nil
		}
	}
	return fmt.Errorf("%s", noManifests)
}

var masterFiles = []row{
	{id: "1.1.1", text: "mode of the API server's pod manifest", applies: noPod},
	{id: "1.1.2", text: "owner of the API server's pod manifest", applies: noPod},
	{id: "1.1.3", text: "mode of the controller manager's pod manifest", applies: noPod},
	{id: "1.1.4", text: "owner of the controller manager's pod manifest", applies: noPod},
	{id: "1.1.5", text: "mode of the scheduler's pod manifest", applies: noPod},
	{id: "1.1.6", text: "owner of the scheduler's pod manifest", applies: noPod},
	{id: "1.1.7", text: "mode of etcd's pod manifest", applies: noPod},
	{id: "1.1.8", text: "owner of etcd's pod manifest", applies: noPod},
	{id: "1.1.9", text: "mode of the files of the container network", found: modes(inMaster("/run/cni/net.d/*"))},
	{id: "1.1.10", text: "owner of the files of the container network", found: owners(inMaster("/run/cni/net.d/*"))},
	{id: "1.1.11", text: "mode of etcd's data", found: modes(inMaster(etcdData))},
	{id: "1.1.12", text: "owner of etcd's data", found: owners(inMaster(etcdData))},
	{id: "1.1.13", text: "mode of the administrator's kubeconfig", applies: noAdmin},
	{id: "1.1.14", text: "owner of the administrator's kubeconfig", applies: noAdmin},
	{id: "1.1.15", text: "mode of the scheduler's kubeconfig", found: modes(inMaster("/run/kube-scheduler/kubeconfig"))},
	{id: "1.1.16", text: "owner of the scheduler's kubeconfig", found: owners(inMaster("/run/kube-scheduler/kubeconfig")), given: ownedBy("/run/kube-scheduler/kubeconfig", "kube-scheduler"),
		why: "the scheduler does not run as root; the file is its own, in a directory of its own"},
	{id: "1.1.17", text: "mode of the controller manager's kubeconfig", found: modes(inMaster("/run/kube-controller-manager/kubeconfig"))},
	{id: "1.1.18", text: "owner of the controller manager's kubeconfig", found: owners(inMaster("/run/kube-controller-manager/kubeconfig")), given: ownedBy("/run/kube-controller-manager/kubeconfig", "kube-controller-manager"),
		why: "the controller manager does not run as root; the file is its own, in a directory of its own"},
	{id: "1.1.19", text: "owner of keys and certificates", found: owners(inMaster(pkiDir+"/*", secretsDir+"/*/*"))},
	{id: "1.1.20", text: "mode of the authorities' certificates", found: modes(inMaster(pkiDir + "/*"))},
	{id: "1.1.21", text: "mode of the keys", found: modes(inMaster(secretsDir + "/*/*"))},
}

var apiServer = []row{
	{id: "1.2.1", text: "the API answers nobody without a name", found: flags("kube-apiserver"), given: anonymousOnlyHealth,
		why: "an AuthenticationConfiguration takes the flag's place, and lets nobody without a name further than to the health paths, which each node's load balancer asks"},
	{id: "1.2.2", text: "the API server takes no file of tokens", found: flags("kube-apiserver")},
	{id: "1.2.3", text: "Services cannot claim foreign addresses", found: flags("kube-apiserver")},
	{id: "1.2.4", text: "the API server has a certificate of its own for kubelets", found: flags("kube-apiserver")},
	{id: "1.2.5", text: "the API server verifies kubelets", found: flags("kube-apiserver")},
	{id: "1.2.6", text: "not everything is allowed", found: flags("kube-apiserver")},
	{id: "1.2.7", text: "kubelets are bounded by the Node authorizer", found: flags("kube-apiserver")},
	{id: "1.2.8", text: "RBAC decides", found: flags("kube-apiserver")},
	{id: "1.2.9", text: "events are bounded", found: flags("kube-apiserver")},
	{id: "1.2.10", text: "no admission that lets everything through", found: flags("kube-apiserver")},
	{id: "1.2.11", text: "images are pulled at each start of a pod", found: flags("kube-apiserver"),
		why: "the images come with the verified root and there is no registry to pull them from"},
	{id: "1.2.12", text: "pods get service accounts by admission", found: flags("kube-apiserver")},
	{id: "1.2.13", text: "nothing is made in a namespace that goes away", found: flags("kube-apiserver")},
	{id: "1.2.14", text: "kubelets change only what is theirs", found: flags("kube-apiserver")},
	{id: "1.2.15", text: "the API server has no profiling", found: flags("kube-apiserver")},
	{id: "1.2.16", text: "there is an audit log", found: flags("kube-apiserver")},
	{id: "1.2.17", text: "audit logs are kept 30 days", found: flags("kube-apiserver")},
	{id: "1.2.18", text: "ten old audit logs are kept", found: flags("kube-apiserver")},
	{id: "1.2.19", text: "audit logs are turned over at 100 MB", found: flags("kube-apiserver")},
	{id: "1.2.20", text: "requests have a limit of time", judge: isSet("kube-apiserver", "--request-timeout"), seen: "`--request-timeout` is set"},
	{id: "1.2.21", text: "tokens of deleted accounts are refused", found: flags("kube-apiserver")},
	{id: "1.2.22", text: "service accounts have a key of their own", found: flags("kube-apiserver")},
	{id: "1.2.23", text: "the API server has a certificate for etcd", applies: etcdBySocket},
	{id: "1.2.24", text: "the API server serves by TLS", found: flags("kube-apiserver")},
	{id: "1.2.25", text: "the API server verifies its clients", found: flags("kube-apiserver")},
	{id: "1.2.26", text: "the API server verifies etcd", applies: etcdBySocket},
	{id: "1.2.27", text: "what is in etcd is encrypted", found: flags("kube-apiserver")},
	{id: "1.2.28", text: "Secrets are encrypted in a strong way", found: encryptionProvider},
	{id: "1.2.29", text: "the API server takes strong ciphers only", found: flags("kube-apiserver")},
	{id: "1.2.30", text: "tokens are not extended beyond what was asked for", found: flags("kube-apiserver")},
}

var controllerAndScheduler = []row{
	{id: "1.3.1", text: "finished pods are cleaned up", found: flags("kube-controller-manager")},
	{id: "1.3.2", text: "the controller manager has no profiling", found: flags("kube-controller-manager")},
	{id: "1.3.3", text: "each controller has rights of its own", found: flags("kube-controller-manager")},
	{id: "1.3.4", text: "the controller manager signs tokens with the accounts' key", found: flags("kube-controller-manager")},
	{id: "1.3.5", text: "pods are given the API's authority", found: flags("kube-controller-manager")},
	{id: "1.3.6", text: "certificates of kubelets are renewed", found: flags("kube-controller-manager")},
	{id: "1.3.7", text: "the controller manager listens on the node itself only", found: flags("kube-controller-manager")},
	{id: "1.4.1", text: "the scheduler has no profiling", found: flags("kube-scheduler")},
	{id: "1.4.2", text: "the scheduler listens on the node itself only", found: flags("kube-scheduler")},
}

var etcd = []row{
	{id: "2.1", text: "etcd serves by TLS", found: flags("etcd")},
	{id: "2.2", text: "etcd verifies its clients", found: flags("etcd")},
	{id: "2.3", text: "etcd makes no certificates for itself", found: flags("etcd")},
	{id: "2.4", text: "members speak TLS with each other", found: flags("etcd")},
	{id: "2.5", text: "members verify each other", found: flags("etcd")},
	{id: "2.6", text: "members make no certificates for themselves", found: flags("etcd")},
	{id: "2.7", text: "etcd has an authority of its own", found: flags("etcd"), judge: etcdHasItsOwnAuthority},
}

var controlPlane = []row{
	{id: "3.1.1", text: "people do not use client certificates", judge: noLeafFor("kubernetes-admin"),
		why: "`spore kubeconfig` makes a certificate for a person, with a lifetime that is chosen; a cluster without anything else has no other login"},
	{id: "3.1.2", text: "people do not use tokens of service accounts", judge: noObjects("Secret", "ServiceAccount"), seen: "we make no service account and no token"},
	{id: "3.1.3", text: "people do not use bootstrap tokens", judge: isNotSet("kube-apiserver", "--enable-bootstrap-token-auth"), seen: "no `--enable-bootstrap-token-auth`"},
	{id: "3.2.1", text: "there is a policy for the audit log", found: flags("kube-apiserver")},
	{id: "3.2.2", text: "the audit log has what matters and no secrets", judge: auditCovers,
		seen: "Secrets, ConfigMaps and tokens are logged without their content; pods, deployments, exec, port-forward and proxy are logged"},
}

var nodeFiles = []row{
	{id: "4.1.1", text: "mode of kubelet's unit", found: modes(inBoth(path.Join(unitDir, "kubelet.service"))),
		why: "units hold nothing secret, systemd tells them to everybody, and they lie on the verified read-only root"},
	{id: "4.1.2", text: "owner of kubelet's unit", found: owners(inBoth(path.Join(unitDir, "kubelet.service")))},
	{id: "4.1.3", text: "mode of kube-proxy's kubeconfig", found: modes(inBoth("/run/kube-proxy/kubeconfig"))},
	{id: "4.1.4", text: "owner of kube-proxy's kubeconfig", found: owners(inBoth("/run/kube-proxy/kubeconfig"))},
	{id: "4.1.5", text: "mode of kubelet's kubeconfig", found: modes(inBoth(kubeletConfig))},
	{id: "4.1.6", text: "owner of kubelet's kubeconfig", found: owners(inBoth(kubeletConfig))},
	{id: "4.1.7", text: "mode of the authority that kubelet verifies clients by", found: modes(inBoth(pkiDir + "/kubernetes-client.crt"))},
	{id: "4.1.8", text: "owner of the authority that kubelet verifies clients by", found: owners(inBoth(pkiDir + "/kubernetes-client.crt"))},
	{id: "4.1.9", text: "mode of kubelet's configuration", found: modes(inBoth("/run/kubelet/config.json"))},
	{id: "4.1.10", text: "owner of kubelet's configuration", found: owners(inBoth("/run/kubelet/config.json"))},
}

var kubelet = []row{
	{id: "4.2.1", text: "kubelet answers nobody without a name", found: flags("kubelet")},
	{id: "4.2.2", text: "kubelet asks the API who may do what", found: flags("kubelet")},
	{id: "4.2.3", text: "kubelet verifies its clients", found: flags("kubelet")},
	{id: "4.2.4", text: "kubelet has no port without TLS", found: flags("kubelet")},
	{id: "4.2.5", text: "idle streams end", found: flags("kubelet")},
	{id: "4.2.6", text: "kubelet keeps its chains of iptables", found: flags("kubelet"), given: nftables,
		why: "there is no iptables: kube-proxy and Calico work with nftables, and nothing uses kubelet's chains"},
	{id: "4.2.7", text: "nodes keep their host name", found: flags("kubelet"),
		why: "a node's name is the one in cluster.yaml, which its certificate is approved for"},
	{id: "4.2.8", text: "events are not dropped", found: flags("kubelet")},
	{id: "4.2.9", text: "kubelet serves by TLS", found: flags("kubelet"), given: kubeletServes,
		why: "it asks the cluster for its serving certificate and renews it (serverTLSBootstrap), in place of files that nobody renews"},
	{id: "4.2.10", text: "kubelet renews its client certificate", found: flags("kubelet")},
	{id: "4.2.11", text: "kubelet renews its serving certificate", found: flags("kubelet")},
	{id: "4.2.12", text: "kubelet takes strong ciphers only", found: flags("kubelet"), given: kubeletCiphers, why: "it speaks TLS 1.3 only, whose ciphers are all strong and cannot be chosen"},
	{id: "4.2.13", text: "the processes of a pod are bounded", found: flags("kubelet")},
	{id: "4.2.14", text: "system calls of pods are filtered by default", found: flags("kubelet")},
	{id: "4.3.1", text: "kube-proxy's metrics are for the node itself only", found: flags("kube-proxy")},
}

var access = []row{
	{id: "5.1.1", text: "cluster-admin is given to few", judge: noBindingTo("cluster-admin"), seen: "none of our bindings names it"},
	{id: "5.1.2", text: "few may read Secrets", judge: nobodyMay("", "secrets", "get", "list", "watch"), seen: "none of our roles allows it but to people with a certificate for `edit` or `admin`; kubelets get those of their own pods by the Node authorizer"},
	{id: "5.1.3", text: "roles name what they allow", judge: noWildcards, seen: "none of our roles has a `*`"},
	{id: "5.1.4", text: "few may make pods", judge: nobodyMay("", "pods", "create"), seen: "none of our roles allows it"},
	{id: "5.1.5", text: "default service accounts are given no tokens", judge: defaultAccountsHaveNoTokens,
		why: "Kubernetes makes the default account of each namespace with tokens; no role is bound to any of them, and a pod can refuse the token"},
	{id: "5.1.6", text: "pods are given tokens where they need them", applies: noPods},
	{id: "5.1.7", text: "nobody is in system:masters", judge: noMasters,
		why: "the bootstrap of each master makes the first roles, and the operator may have to repair them; both certificates are made for one purpose each"},
	{id: "5.1.8", text: "few may act for others or give out rights", judge: nobodyMayVerb("bind", "impersonate", "escalate"), seen: "none of our roles allows it"},
	{id: "5.1.9", text: "few may make persistent volumes", judge: nobodyMay("", "persistentvolumes", "create"), seen: "none of our roles allows it"},
	{id: "5.1.10", text: "few may reach kubelets through the API", judge: onlyTheAPIReachesKubelets, seen: "only the certificate that the API server itself has for kubelets is bound to such a role"},
	{id: "5.1.11", text: "few may approve certificates", judge: nobodyMay("certificates.k8s.io", "certificatesigningrequests/approval", "update", "patch"), seen: "none of our roles allows it; the bootstrap of each master approves what fits cluster.yaml"},
	{id: "5.1.12", text: "few may hook into admission", judge: nobodyMayWrite("admissionregistration.k8s.io", "validatingwebhookconfigurations", "mutatingwebhookconfigurations"), seen: "none of our roles allows it"},
	{id: "5.1.13", text: "few may make tokens", judge: nobodyMay("", "serviceaccounts/token", "create"), seen: "none of our roles allows it; kubelets make those of their own pods by the Node authorizer"},
}

// What the levels of the Pod Security Standards forbid.
var (
	baseline   = podSecurityAtLeast("baseline", "restricted")
	restricted = podSecurityAtLeast("restricted")
)

const (
	byBaseline     = "Pod Security admission enforces baseline where a namespace has no label of its own"
	onlyRestricted = "the default level is baseline, as most software does not run under restricted; `podSecurity: restricted` in kubernetes.yaml or a namespace's label asks for it"
)

var podSecurity = []row{
	{id: "5.2.1", text: "a policy bounds what pods may do", judge: baseline, seen: byBaseline},
	{id: "5.2.2", text: "no privileged containers", judge: baseline, seen: byBaseline},
	{id: "5.2.3", text: "no pods in the node's process namespace", judge: baseline, seen: byBaseline},
	{id: "5.2.4", text: "no pods in the node's IPC namespace", judge: baseline, seen: byBaseline},
	{id: "5.2.5", text: "no pods in the node's network namespace", judge: baseline, seen: byBaseline},
	{id: "5.2.6", text: "no containers that can gain privileges", judge: restricted, why: onlyRestricted},
	{id: "5.2.7", text: "no containers of root", judge: restricted, why: onlyRestricted},
	{id: "5.2.8", text: "no containers with raw sockets", judge: restricted, why: onlyRestricted},
	{id: "5.2.9", text: "no containers with capabilities", judge: restricted, why: onlyRestricted},
	{id: "5.2.10", text: "no host processes of Windows", judge: baseline, seen: byBaseline},
	{id: "5.2.11", text: "no directories of the node in pods", judge: baseline, seen: byBaseline},
	{id: "5.2.12", text: "no ports of the node for pods", judge: baseline, seen: byBaseline},
}

var policies = []row{
	{id: "5.3.1", text: "the network knows network policies", judge: runs("calico-node"), seen: "Calico runs on each node"},
	{id: "5.3.2", text: "each namespace has network policies", judge: hasObjects("NetworkPolicy"),
		why: "which connections are right only the owner of a namespace can say; the namespaces that we make hold no pods"},
	{id: "5.4.1", text: "Secrets are files and not environment variables", applies: noPods},
	{id: "5.4.2", text: "Secrets are kept outside the cluster", judge: noEncryptionHere,
		why: "they are in etcd, encrypted with a key of the bundle; an appliance has no other place for them"},
	{id: "5.5.1", text: "the origin of images is checked by admission", judge: admits("ImagePolicyWebhook"),
		why: "what is in the image is verified with it, block by block; what is pulled besides is the owner's to judge"},
	{id: "5.6.1", text: "namespaces divide what belongs to different people", applies: noneOfOurs("namespaces")},
	{id: "5.6.2", text: "pods run under a filter of system calls", judge: seccompDefault, seen: "`seccompDefault: true` on each node"},
	{id: "5.6.3", text: "pods say what they may do", applies: noPods},
	{id: "5.6.4", text: "the default namespace is not used", judge: nothingInDefault, seen: "none of our objects is in it but the bindings of people who have a certificate for it"},
}

// flags is what a program was started with, on each node that runs it.
func flags(program string) func(Evidence) ([]found, error) {
	return func(e Evidence) ([]found, error) {
		var out []found
		for _, n := range []Node{e.Master, e.Worker} {
			if len(n.Arguments[program]) == 0 {
				continue
			}
			words, err := n.flags(program)
			if err != nil {
				return nil, err
			}
			f := found{words: words}
			if program == "kubelet" || program == "kube-proxy" {
				if f.config, err = n.config(program); err != nil {
					return nil, err
				}
			}
			out = append(out, f)
		}
		if len(out) == 0 {
			return nil, fmt.Errorf("no node runs %s", program)
		}
		return out, nil
	}
}

// place is a file of a node.
type place struct {
	path string
	File
}

// inMaster are the master's files that match the patterns, of which each matches one at least.
func inMaster(patterns ...string) func(Evidence) ([]place, error) {
	return func(e Evidence) ([]place, error) { return e.Master.matching(patterns) }
}

// inBoth are those of master and worker.
func inBoth(patterns ...string) func(Evidence) ([]place, error) {
	return func(e Evidence) ([]place, error) {
		a, err := e.Master.matching(patterns)
		if err != nil {
			return nil, err
		}
		b, err := e.Worker.matching(patterns)
		return append(a, b...), err
	}
}

func (n Node) matching(patterns []string) ([]place, error) {
	var out []place
	for _, pattern := range patterns {
		before := len(out)
		for _, p := range slices.Sorted(maps.Keys(n.Files)) {
			if ok, err := path.Match(pattern, p); err != nil {
				return nil, err
			} else if ok {
				out = append(out, place{p, n.Files[p]})
			}
		}
		if len(out) == before {
			return nil, fmt.Errorf("there is no file %s", pattern)
		}
	}
	return out, nil
}

// modes are lines as stat would give them for the condition.
func modes(which func(Evidence) ([]place, error)) func(Evidence) ([]found, error) {
	return lines(which, func(p place) string { return "permissions=" + p.Mode })
}

func owners(which func(Evidence) ([]place, error)) func(Evidence) ([]found, error) {
	return lines(which, func(p place) string { return p.Owner })
}

// lines makes one found a file, so that each must pass also where the list looks at one file only.
func lines(which func(Evidence) ([]place, error), line func(place) string) func(Evidence) ([]found, error) {
	return func(e Evidence) ([]found, error) {
		places, err := which(e)
		if err != nil {
			return nil, err
		}
		var out []found
		for _, p := range places {
			out = append(out, found{lines: []string{line(p)}, of: p.path})
		}
		return out, nil
	}
}

// mentioned are the flags of a condition as the program was given them.
func mentioned(c Check, f found) string {
	if len(f.lines) > 0 {
		return strings.TrimPrefix(strings.TrimPrefix(f.lines[0], "permissions="), "provider=")
	}
	var out []string
	for _, i := range c.Tests.Items {
		text := "no `" + i.Flag + "`"
		if v, ok := value(f.words, i.Flag); ok {
			text = "`" + i.Flag + "=" + v + "`"
		} else if i.Path != "" && f.config != nil {
			name := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(i.Path, "{range "), "{."), "}")
			name, _, _ = strings.Cut(strings.TrimPrefix(name, "."), "[")
			text = "no `" + name + "`"
			if v, ok, err := findPath(f.config, i.Path); ok && err == nil {
				text = "`" + name + ": " + v + "`"
			}
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return strings.Join(out, ", ")
}
