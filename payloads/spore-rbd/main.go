// Command spore-rbd has the CSI drivers that give pods volumes of Ceph. `spore-rbd controller` on masters makes and removes RBD
// images, `spore-rbd node` on each node of Kubernetes mounts them; `spore-rbd cephfs-controller` and `spore-rbd cephfs-node` do so
// with subvolumes of CephFS.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"spore/payloads/spore-rbd/cephfs"
	"spore/payloads/spore-rbd/driver"
	"spore/payloads/spore-rbd/rbd"
	"spore/payloads/spore-rbd/registration"
)

const usage = `usage: spore-rbd controller --conf FILE --user NAME --socket FILE
       spore-rbd node --conf FILE --user NAME --socket FILE --registration FILE --node NAME
       spore-rbd cephfs-controller --conf FILE --user NAME --socket FILE
       spore-rbd cephfs-node --fsid ID --monitors ADDRESS:PORT/... --key FILE --user NAME --socket FILE --registration FILE --node NAME

CSI drivers for volumes on Ceph: ` + driver.Name + ` for RBD images, ` + driver.FilesName + ` for CephFS. The controllers make and remove
volumes for Kubernetes' external-provisioner; the nodes mount them for kubelet.

Example: spore-rbd controller --conf /run/rbd-controller/ceph.conf --user kubernetes-rbd --socket /run/rbd-controller/csi.sock
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case err != nil:
		say(err.Error())
		os.Exit(1)
	}
}

var errUsage = errors.New("wrong usage")

func say(line string) { fmt.Fprintln(os.Stderr, "spore-rbd: "+line) }

// options are those of all commands; each needs some.
type options struct {
	conf, user, socket, registration, node string
	fsid, monitors, key                    string
	rbd, ceph                              string
}

// command is one of those that the first word chooses.
type command struct {
	// needs are the options without which it does nothing.
	needs []string
	run   func(context.Context, options) error
}

var commands = map[string]command{
	"controller":        {[]string{"conf", "user", "socket"}, controller},
	"node":              {[]string{"conf", "user", "socket", "registration", "node"}, node},
	"cephfs-controller": {[]string{"conf", "user", "socket"}, filesController},
	"cephfs-node":       {[]string{"fsid", "monitors", "key", "user", "socket", "registration", "node"}, filesNode},
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] == "--help" || args[0] == "-h" {
		fmt.Print(usage)
		if len(args) == 0 {
			return fmt.Errorf("%w: name what to run", errUsage)
		}
		return nil
	}
	c, ok := commands[args[0]]
	if !ok {
		return fmt.Errorf("%w: there is controller, node, cephfs-controller and cephfs-node", errUsage)
	}
	flags := flag.NewFlagSet("spore-rbd", flag.ContinueOnError)
	flags.Usage = func() { fmt.Print(usage) }
	var o options
	for name, to := range map[string]*string{
		"conf": &o.conf, "user": &o.user, "socket": &o.socket, "registration": &o.registration, "node": &o.node,
		"fsid": &o.fsid, "monitors": &o.monitors, "key": &o.key,
	} {
		flags.StringVar(to, name, "", "")
	}
	flags.StringVar(&o.rbd, "rbd", "/usr/bin/rbd", "")
	flags.StringVar(&o.ceph, "ceph", "/usr/bin/ceph", "")
	if err := flags.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	for _, name := range c.needs {
		if flags.Lookup(name).Value.String() == "" {
			return fmt.Errorf("%w: %s needs --%s", errUsage, args[0], name)
		}
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%w: %q stands alone", errUsage, flags.Arg(0))
	}
	return c.run(ctx, o)
}

func controller(ctx context.Context, o options) error {
	return serve(ctx, service{o.socket, func(s *grpc.Server) {
		csi.RegisterIdentityServer(s, &driver.Identity{Name: driver.Name, Controller: true})
		csi.RegisterControllerServer(s, &driver.Controller{RBD: rbd.Command{Program: o.rbd, Conf: o.conf, User: o.user}})
	}})
}

func node(ctx context.Context, o options) error {
	return serveNode(ctx, o, driver.Name, &driver.Node{RBD: rbd.Command{Program: o.rbd, Conf: o.conf, User: o.user}, ID: o.node})
}

func filesController(ctx context.Context, o options) error {
	return serve(ctx, service{o.socket, func(s *grpc.Server) {
		csi.RegisterIdentityServer(s, &driver.Identity{Name: driver.FilesName, Controller: true})
		csi.RegisterControllerServer(s, &driver.FilesController{CephFS: cephfs.Command{Program: o.ceph, Conf: o.conf, User: o.user}})
	}})
}

func filesNode(ctx context.Context, o options) error {
	monitors, err := cephfs.ParseMonitors(o.monitors)
	if err != nil {
		return fmt.Errorf("%w: --monitors: %w", errUsage, err)
	}
	mounter := cephfs.Mounter{FSID: o.fsid, Monitors: monitors, User: o.user, KeyFile: o.key}
	return serveNode(ctx, o, driver.FilesName, &driver.FilesNode{CephFS: mounter, ID: o.node})
}

// serveNode serves a driver of this machine, and tells kubelet of it.
func serveNode(ctx context.Context, o options, name string, server csi.NodeServer) error {
	return serve(ctx,
		service{o.socket, func(s *grpc.Server) {
			csi.RegisterIdentityServer(s, &driver.Identity{Name: name})
			csi.RegisterNodeServer(s, server)
		}},
		// Kubelet calls the driver as soon as it sees this one, so it is the last.
		service{o.registration, func(s *grpc.Server) {
			registerapi.RegisterRegistrationServer(s, &registration.Server{Driver: name, Socket: o.socket, Say: say})
		}})
}

// service is what answers at a socket.
type service struct {
	socket   string
	register func(*grpc.Server)
}

// serve answers until the context ends; calls that have begun then come to their end.
func serve(ctx context.Context, services ...service) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, one := range services {
		l, err := listen(one.socket)
		if err != nil {
			return err
		}
		s := grpc.NewServer(grpc.UnaryInterceptor(driver.Logged(say)))
		one.register(s)
		group.Go(func() error { return s.Serve(l) })
		group.Go(func() error {
			<-ctx.Done()
			s.GracefulStop()
			return nil
		})
	}
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		say(err.Error())
	}
	return group.Wait()
}

// listen makes a socket for its owner alone; one that an earlier run has left is replaced.
func listen(socket string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return nil, err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(socket, 0o600)
}
