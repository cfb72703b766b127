# A program that behaves as a chat bot does, without a network: it says who it
# is, gives a sign of life every few seconds, and leaves when it is asked to.

VERSION = 1 # change it and commit: the next start prints the new one

$stdout.sync = true
puts "ruby-bot version #{VERSION}, Ruby #{RUBY_VERSION}, pid #{Process.pid}"

%w[TERM INT].each do |name|
  trap(name) do
    puts "SIG#{name}: goodbye"
    exit
  end
end

(1..).each do |tick|
  sleep 5
  puts "tick #{tick}"
end
