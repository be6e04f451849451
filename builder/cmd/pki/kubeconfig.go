package pki

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"spore/builder/cmd/ask"
	"spore/builder/cmd/exit"
	"spore/cluster/facts"
	tree "spore/pki"
	"spore/pki/vault"
	"spore/services/kubernetes"
)

// KubeconfigCommand returns the command `spore kubeconfig`, which takes from the operator's folder as `spore pki` does.
func KubeconfigCommand() *cobra.Command {
	return kubeconfigCommand(outside{now: time.Now, random: rand.Reader, ask: ask.Terminal})
}

type kubeconfigFlags struct {
	out, server, user, group, namespace string
	lifetime                            time.Duration
}

// everything is the group of those who may do everything.
const everything = "cluster-admin"

// namespaceForm is the name of a namespace (RFC 1123, a DNS label).
var namespaceForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// userForm is what stands in the audit log as a person's name.
var userForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9@._-]{0,63}$`)

func kubeconfigCommand(world outside) *cobra.Command {
	c := common{world: world}
	var f kubeconfigFlags
	cmd := &cobra.Command{
		Use:   "kubeconfig [DIR] -o FILE",
		Short: "Create a kubeconfig for kubectl, for a person",
		Long: `Kubeconfig makes a client certificate with a key of its own, for at most eight hours, and writes it to a file
with what kubectl needs besides. The certificate comes from the operator's folder (see spore pki); the nodes may be off.

With --group, the person may view, edit or admin what is in namespaces: in all of them, or in the one that --namespace
names. These are the roles of Kubernetes with those names; the masters bind them. Without --group the person has every
right in the cluster.

The right lasts until the certificate expires: Kubernetes cannot revoke a certificate. So choose a short lifetime. Only
you can read the file.`,
		Example: `  spore kubeconfig configs -o admin.kubeconfig
  spore kubeconfig configs --user anna --group edit --namespace shop --lifetime 30m -o anna.kubeconfig
  spore kubeconfig configs --server https://127.0.0.1:49443 -o local.kubeconfig`,
		Args: exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.args(args)
			s, err := c.open(cmd)
			if err != nil {
				return err
			}
			defer s.vault.Close()
			return s.kubeconfig(cmd, f)
		},
	}
	cmd.Flags().StringVar(&c.dir, "pki", "", "the operator's folder (default: DIR.pki beside the configuration folder DIR)")
	cmd.Flags().StringVar(&c.passphraseFile, "passphrase-file", "", "read the folder's passphrase from this file instead of the terminal")
	cmd.Flags().StringVar(&c.identity, "identity", "", "age identity file, where the folder is encrypted for recipients")
	cmd.Flags().StringVarP(&f.out, "output", "o", "kubeconfig", "file to write")
	cmd.Flags().StringVar(&f.server, "server", "", "URL of the API (default: the control-plane endpoint, else the first control plane)")
	cmd.Flags().StringVar(&f.user, "user", "kubernetes-admin", "name of the person, for the audit log")
	cmd.Flags().StringVar(&f.group, "group", everything, "what the person may do: view, edit, admin or cluster-admin")
	cmd.Flags().StringVar(&f.namespace, "namespace", "", "where the person may do it (default: in all namespaces)")
	cmd.Flags().DurationVar(&f.lifetime, "lifetime", tree.KubernetesLife, "how long the certificate is valid, at most 8h")
	return cmd
}

func (s *session) kubeconfig(cmd *cobra.Command, f kubeconfigFlags) error {
	if !userForm.MatchString(f.user) {
		return exit.Usage(fmt.Errorf("the user %q is not a name; write 1 to 64 letters, digits, @, ., _ and -, with a letter or digit first", f.user))
	}
	if err := f.check(); err != nil {
		return exit.Usage(err)
	}
	masters := s.cluster.Members["control-plane"]
	if kubernetes.Of(s.cluster.Services) == nil || len(masters) == 0 {
		return errors.New("this cluster has no Kubernetes; enable the service kubernetes and give a node the role control-plane")
	}
	master, err := s.node(masters[0])
	if err != nil {
		return err
	}
	if f.server == "" {
		f.server = tree.APIServer(s.cluster, master)
	}
	serverName, err := serverNameFor(s.cluster, master, f.server)
	if err != nil {
		return err
	}
	o, err := s.options(false)
	if err != nil {
		return err
	}
	var admin *tree.Admin
	if f.group == everything {
		admin, err = s.vault.Tree.Admin(s.cluster, f.user, f.lifetime, o)
	} else {
		admin, err = s.vault.Tree.Member(s.cluster, f.user, kubernetes.PersonGroup(f.group, f.namespace), f.lifetime, o)
	}
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(newKubeconfig(s.cluster.Name, f, serverName, admin))
	if err != nil {
		return err
	}
	if err := vault.WriteFile(f.out, text); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s%s at %s until %s\n", f.out, f.user, f.may(), f.server,
		admin.Ends.Format(time.RFC3339))
	return nil
}

// check says what is wrong with the right that is asked for.
func (f kubeconfigFlags) check() error {
	switch {
	case f.group != everything && !kubernetes.IsRight(f.group):
		return fmt.Errorf("there is no group %.64q; choose view, edit, admin or %s", f.group, everything)
	case f.namespace != "" && f.group == everything:
		return fmt.Errorf("%s is for the whole cluster; choose --group view, edit or admin for a namespace", everything)
	case f.namespace != "" && !namespaceForm.MatchString(f.namespace):
		return fmt.Errorf("%.64q is not the name of a namespace; write 1 to 63 lower-case letters, digits and -",
			f.namespace)
	case f.lifetime > tree.KubernetesLife:
		return fmt.Errorf("the lifetime %s is out of bounds; choose at most %s, since Kubernetes cannot take a "+
			"certificate back", f.lifetime, tree.KubernetesLife)
	}
	return nil
}

// may says what the person may do, where that is not everything.
func (f kubeconfigFlags) may() string {
	switch {
	case f.group == everything:
		return ""
	case f.namespace == "":
		return ", who may " + f.group + " all namespaces,"
	}
	return ", who may " + f.group + " the namespace " + f.namespace + ","
}

// serverNameFor returns the name that kubectl is to look for in the server's certificate, when the one in the URL is
// not there: a forwarded port has an address of its own.
func serverNameFor(c *facts.Cluster, master *facts.Node, server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", exit.Usage(fmt.Errorf("the server %q is not a URL of an API; write it as https://10.77.0.11:6443", server))
	}
	known, err := tree.KnownAs(c, master, u)
	if err != nil || known {
		return "", err
	}
	return "kubernetes", nil
}

// kubeconfig is a file of kubectl's (k8s.io/client-go/tools/clientcmd/api/v1, Config).
type kubeconfig struct {
	APIVersion     string       `yaml:"apiVersion"`
	Kind           string       `yaml:"kind"`
	Clusters       []clusterRow `yaml:"clusters"`
	Users          []userRow    `yaml:"users"`
	Contexts       []contextRow `yaml:"contexts"`
	CurrentContext string       `yaml:"current-context"`
}

type clusterRow struct {
	Name    string `yaml:"name"`
	Cluster struct {
		Server        string `yaml:"server"`
		TLSServerName string `yaml:"tls-server-name,omitempty"`
		Authority     string `yaml:"certificate-authority-data"`
	} `yaml:"cluster"`
}

type userRow struct {
	Name string `yaml:"name"`
	User struct {
		Certificate string `yaml:"client-certificate-data"`
		Key         string `yaml:"client-key-data"`
	} `yaml:"user"`
}

type contextRow struct {
	Name    string `yaml:"name"`
	Context struct {
		Cluster string `yaml:"cluster"`
		User    string `yaml:"user"`
		// Namespace is where kubectl works when it is not told.
		Namespace string `yaml:"namespace,omitempty"`
	} `yaml:"context"`
}

func newKubeconfig(cluster string, f kubeconfigFlags, serverName string, a *tree.Admin) kubeconfig {
	encode := base64.StdEncoding.EncodeToString
	k := kubeconfig{APIVersion: "v1", Kind: "Config", CurrentContext: f.user + "@" + cluster}
	row := clusterRow{Name: cluster}
	row.Cluster.Server, row.Cluster.TLSServerName, row.Cluster.Authority = f.server, serverName, encode(a.Authority)
	user := userRow{Name: f.user}
	user.User.Certificate, user.User.Key = encode([]byte(a.Certificate)), encode([]byte(a.Key))
	context := contextRow{Name: k.CurrentContext}
	context.Context.Cluster, context.Context.User, context.Context.Namespace = cluster, f.user, f.namespace
	k.Clusters, k.Users, k.Contexts = []clusterRow{row}, []userRow{user}, []contextRow{context}
	return k
}
