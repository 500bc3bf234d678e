-- gangplan's gate: every job waits in hold until gangplan places it, and its owner cannot open the gate.
local NOT_SET, NOT_SET_16 = 4294967294, 65534
local PLANNERS = {@PLANNERS@} -- user ids that may release and place jobs
local PARTITIONS = {@PARTITIONS@} -- planned by gangplan; empty = all

local function planned(job)
   if job.reservation ~= nil and job.reservation ~= "" then
      return false -- a reservation of Slurm's belongs to whoever it was made for
   end
   if next(PARTITIONS) == nil or job.partition == nil then
      return true
   end
   for name in string.gmatch(job.partition, "[^,]+") do
      if PARTITIONS[name] then
         return true
      end
   end
   return false
end

local function refuse(text)
   slurm.log_user("gangplan: " .. text)
   return slurm.ERROR
end

function slurm_job_submit(job, partitions, uid)
   if not planned(job) then
      return slurm.SUCCESS
   end
   if job.req_nodes ~= nil and not PLANNERS[uid] then
      return refuse("the planner chooses the nodes, submit without --nodelist")
   end
   if job.exc_nodes ~= nil and not PLANNERS[uid] then
      return refuse("the planner chooses the nodes, submit without --exclude and tell the operators what is wrong")
   end
   job.priority = 0
   return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
   if PLANNERS[uid] then
      return slurm.SUCCESS
   end
   local priority = job.priority
   if priority ~= nil and priority ~= NOT_SET and priority ~= NOT_SET_16 and priority ~= 0 then
      return refuse("the planner releases jobs, you cannot")
   end
   if job.req_nodes ~= nil or job.comment ~= nil then
      return refuse("required nodes and the comment are fixed once a job is submitted")
   end
   return slurm.SUCCESS
end

return slurm.SUCCESS
