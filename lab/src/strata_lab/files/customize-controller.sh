#!/bin/sh
# The message broker without the plugins that nobody uses: each of the sixty is a directory in which Erlang looks for every
# module that it loads, and without them the broker starts with half the work.
set -eu
cd /usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins
for plugin in *-*; do
    case ${plugin%-*} in
        # the broker and what it depends on
        rabbit | rabbit_common | rabbitmq_prelaunch | amqp10_common | aten | credentials_obfuscation | cuttlefish) ;;
        enough | gen_batch_server | jsx | observer_cli | osiris | ra | ranch | recon | seshat | stdout_formatter) ;;
        syslog | sysmon_handler | systemd) ;;
        *) rm -r "$plugin" ;;
    esac
done
