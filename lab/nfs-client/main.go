// Command mount.nfs mounts NFSv4.1 through FUSE, for nodes whose kernel has no NFS client.
//
// mount(8) and the kubelet call it as they call nfs-utils' mount.nfs. It returns when the directory is mounted; a second
// process, in a systemd scope of its own, serves the mount until it is unmounted. Its log: journalctl -t mount.nfs.
package main

import (
	"fmt"
	"log"
	"log/syslog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

const (
	failed   = 32 // exit status of mount(8) for a mount that failed
	ready    = "ok"
	child    = "MOUNT_NFS_CHILD"
	maxIO    = 1 << 20
	renewal  = 20 * time.Second // well below the lease
	farewell = 3 * time.Second
)

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "mount.nfs: "+format+"\n", args...)
	os.Exit(failed)
}

func main() {
	source, directory, words, err := parseArguments(os.Args[1:])
	if err != nil {
		fail("%v", err)
	}
	chosen, err := parseOptions(words)
	if err != nil {
		fail("%v", err)
	}
	host, path, ok := strings.Cut(source, ":/")
	if !ok {
		fail("%s: not SERVER:/EXPORT", source)
	}
	if directory, err = filepath.Abs(directory); err != nil {
		fail("%v", err)
	}
	if os.Getenv(child) == "" {
		os.Exit(background())
	}
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(64 << 20)
	address := net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(chosen.port))
	f := &nfs{RawFileSystem: fuse.NewDefaultRawFileSystem(), c: newClient(address), soft: chosen.soft, ttl: chosen.ttl}
	f.c.reclaim = f.relock
	if st := f.start(path); st != 0 {
		f.goodbye()
		fail("%s: %v", source, syscall.Errno(status(st)))
	}
	if err := f.mount(source, directory, chosen); err != nil {
		fail("%s: %v", directory, err)
	}
	detach()
	f.server.Wait()
	// the server may be down
	time.AfterFunc(farewell, func() { os.Exit(0) })
	f.goodbye()
}

// mount mounts the export, and serves it in the background.
func (f *nfs) mount(source, directory string, chosen options) (err error) {
	f.server, err = fuse.NewServer(f, directory, &fuse.MountOptions{
		FsName: source, Name: "nfs", AllowOther: true, Options: []string{"default_permissions"},
		DirectMountStrict: true, DirectMountFlags: syscall.MS_MGC_VAL | chosen.flags,
		MaxWrite: maxIO, MaxBackground: 32, DisableSplice: true, DisableXAttrs: true, EnableLocks: chosen.locks,
	})
	if err != nil {
		return err
	}
	go func() {
		for range time.Tick(renewal) {
			f.c.do(cred{}, new(enc).op(opPutrootfh))
		}
	}()
	go f.server.Serve()
	if err := f.server.WaitMount(); err != nil {
		return err
	}
	readAhead(directory)
	return nil
}

// readAhead has the kernel read ahead as nfs-utils' nfsrahead does; FUSE's default is 128 KiB.
func readAhead(directory string) {
	var st syscall.Stat_t
	if syscall.Stat(directory, &st) != nil {
		return
	}
	major, minor := st.Dev>>8&0xfff, st.Dev&0xff|st.Dev>>12&^0xff
	file := fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", major, minor)
	_ = os.WriteFile(file, []byte(strconv.Itoa(4*maxIO>>10)), 0) // slower without
}

// background starts the process that serves the mount; it returns the exit status once the directory is mounted.
func background() int {
	read, write, err := os.Pipe()
	if err != nil {
		fail("%v", err)
	}
	self, err := os.Executable()
	if err != nil {
		fail("%v", err)
	}
	command := exec.Command(self)
	command.Args = append([]string{"@mount.nfs"}, os.Args[1:]...) // systemd spares an @ until file systems are unmounted
	if run := "/usr/bin/systemd-run"; exists("/run/systemd/system") && exists(run) {
		// else a restart of the kubelet's unit would end it; mount(8) clears PATH
		scope := []string{"--quiet", "--scope", "--collect", "--slice=nfs.slice", "--description=NFS mount", self}
		command = exec.Command(run, append(scope, os.Args[1:]...)...)
	}
	command.Env = append(os.Environ(), child+"=1")
	command.Stderr = os.Stderr
	command.ExtraFiles = []*os.File{write}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		fail("%v", err)
	}
	_ = write.Close()
	answer := make([]byte, len(ready))
	if n, _ := read.Read(answer); n == len(ready) {
		return 0
	}
	return failed
}

// detach reports the mount to the first process, and gives up its terminal.
func detach() {
	if logger, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_NOTICE, "mount.nfs"); err == nil {
		log.SetFlags(0)
		log.SetOutput(logger)
	}
	pipe := os.NewFile(3, "ready")
	_, _ = pipe.WriteString(ready)
	_ = pipe.Close()
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		for fd := range 3 {
			_ = syscall.Dup3(int(null.Fd()), fd, 0)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
