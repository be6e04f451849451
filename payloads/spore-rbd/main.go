// Command spore-rbd is the CSI driver that gives pods volumes of Ceph: `spore-rbd controller` on masters makes and removes
// RBD images, `spore-rbd node` on each node of Kubernetes mounts them.
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

	"spore/payloads/spore-rbd/driver"
	"spore/payloads/spore-rbd/rbd"
	"spore/payloads/spore-rbd/registration"
)

const usage = `usage: spore-rbd controller --conf FILE --user NAME --socket FILE
       spore-rbd node --conf FILE --user NAME --socket FILE --registration FILE --node NAME

A CSI driver for RBD images of Ceph, called ` + driver.Name + `. The controller makes and removes images for Kubernetes'
external-provisioner; the node maps and mounts them for kubelet.

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

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] == "--help" || args[0] == "-h" {
		fmt.Print(usage)
		if len(args) == 0 {
			return fmt.Errorf("%w: name controller or node", errUsage)
		}
		return nil
	}
	flags := flag.NewFlagSet("spore-rbd", flag.ContinueOnError)
	flags.Usage = func() { fmt.Print(usage) }
	ceph := rbd.Command{}
	var socket, register, node string
	flags.StringVar(&ceph.Program, "rbd", "/usr/bin/rbd", "")
	flags.StringVar(&ceph.Conf, "conf", "", "")
	flags.StringVar(&ceph.User, "user", "", "")
	flags.StringVar(&socket, "socket", "", "")
	flags.StringVar(&register, "registration", "", "")
	flags.StringVar(&node, "node", "", "")
	if err := flags.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if ceph.Conf == "" || ceph.User == "" || socket == "" || flags.NArg() > 0 {
		return fmt.Errorf("%w: --conf, --user and --socket are needed, and nothing else stands alone", errUsage)
	}
	switch {
	case args[0] == "controller":
		return serve(ctx, service{socket, func(s *grpc.Server) {
			csi.RegisterIdentityServer(s, &driver.Identity{Controller: true})
			csi.RegisterControllerServer(s, &driver.Controller{RBD: ceph})
		}})
	case args[0] == "node" && node != "" && register != "":
		return serve(ctx,
			service{socket, func(s *grpc.Server) {
				csi.RegisterIdentityServer(s, &driver.Identity{})
				csi.RegisterNodeServer(s, &driver.Node{RBD: ceph, ID: node})
			}},
			// Kubelet calls the driver as soon as it sees this one, so it is the last.
			service{register, func(s *grpc.Server) {
				registerapi.RegisterRegistrationServer(s, &registration.Server{Driver: driver.Name, Socket: socket, Say: say})
			}})
	}
	return fmt.Errorf("%w: name controller, or node with --node and --registration", errUsage)
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
