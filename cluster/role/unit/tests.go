package unit

import (
	"spore/cluster/role"
)

// testUnits are the socket by which the node's API asks for the tests of a role, and the service of one connection,
// which runs them and answers on it. The service has the user of the role and none of its secrets, needs or
// directories.
func testUnits(d *role.Definition) map[string]string {
	if len(d.Tests) == 0 {
		return nil
	}
	var socket, run text
	socket.line("# Role %s. The node's API asks here for its tests.", d.Name)
	socket.line("[Unit]")
	socket.line("Description=Tests of the role %s", d.Name)
	socket.line("PartOf=%s", d.Target())
	socket.line("")
	socket.line("[Socket]")
	socket.line("ListenStream=%s", d.TestSocket())
	socket.line("SocketMode=0660")
	socket.line("SocketGroup=spore-api")
	socket.line("Accept=yes")
	socket.line("MaxConnections=1")

	run.line("# Role %s. Its tests are run once.", d.Name)
	run.line("[Unit]")
	run.line("Description=Run the tests of the role %s", d.Name)
	run.line("CollectMode=inactive-or-failed")
	run.line("PartOf=%s", d.Target())
	run.line("")
	run.line("[Service]")
	run.line("Type=exec")
	run.line("ExecStart=/usr/bin/spore-role tests %s", d.Name)
	run.line("StandardInput=socket")
	run.line("StandardOutput=socket")
	run.line("StandardError=journal")
	// The program bounds its commands; this bounds the program.
	run.line("RuntimeMaxSec=%d", int(role.TestsBound.Seconds())+60)
	asker(&run, d)
	return map[string]string{d.TestName() + ".socket": socket.String(), d.TestName() + "@.service": run.String()}
}
